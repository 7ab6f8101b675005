// Azure's scheduled events: will this virtual machine be evicted, deleted, moved or restarted? Azure waits until the
// instant in NotBefore, or until everybody has approved. Azure documentation, "Scheduled Events for Linux VMs".
import * as z from 'zod';
import type { Notice } from '../model/format/notice.ts';
import { atInstant, instantMs } from './instant.ts';
import { askAtFirst, baseUrl, jsonOf, poll, tryAsk, type Answer } from './metadata.ts';
import { showPresence, type Presence } from './neighbours.ts';
import { absent, type Source, type SourceOptions } from './source.ts';

const EVENTS_PATH = '/metadata/scheduledevents?api-version=2020-07-01';
const NAME_PATH = '/metadata/instance/compute/name?api-version=2021-02-01&format=text';
const HEADERS = { metadata: 'true' } as const;

/** What takes the task's memory or disk away. `Freeze` pauses for seconds, and is no notice. */
const VERB: ReadonlyMap<string, string> = new Map([
  ['Preempt', 'evicts'],
  ['Terminate', 'deletes'],
  ['Redeploy', 'moves'],
  ['Reboot', 'restarts'],
]);

const Events = z.object({
  Events: z.array(
    z.object({
      EventId: z.string().min(1),
      EventType: z.string(),
      EventStatus: z.string(),
      Resources: z.array(z.string()),
      /** Empty once the event has started. */
      NotBefore: z.string().optional(),
    }),
  ),
});
type Event = z.infer<typeof Events>['Events'][number];

/** An event that takes this machine away. */
interface Ours {
  readonly id: string;
  readonly notice: Notice;
  /** Scheduled, and of no other machine: nobody else loses time if we approve it. */
  readonly isOursToApprove: boolean;
}

/** `CAPTURE_AZURE_METADATA_ENDPOINT` is ours: Azure's clients have no variable for this service. */
export function azureSource(options: SourceOptions): Source {
  const { env, pace, signal } = options;
  const base = baseUrl(env['CAPTURE_AZURE_METADATA_ENDPOINT']);
  let ours: readonly Ours[] = [];
  let presence: Presence | undefined;
  const run = async (): Promise<void> => {
    if ('wrong' in base) {
      absent(options, `no notices from Azure: CAPTURE_AZURE_METADATA_ENDPOINT ${base.wrong}`);
      return;
    }
    const question = { headers: HEADERS, timeoutMs: pace.timeoutMs, signal };
    const named = await askAtFirst(base, { ...question, path: NAME_PATH }, pace);
    const machine = nameOf(named);
    if (machine === undefined) {
      const why = 'failed' in named ? named.failed : `http ${named.status}`;
      absent(options, `no notices from Azure: its metadata service does not name this machine (${why})`);
      return;
    }
    presence = showPresence(`azure-${base.host}`);
    signal.addEventListener('abort', () => presence?.leave(), { once: true });
    // The first list switches the service on for this machine, which takes up to two minutes.
    let timeoutMs = pace.slowTimeoutMs;
    await poll(
      async () => {
        const answer = await tryAsk(base, { ...question, path: EVENTS_PATH, timeoutMs });
        if ('failed' in answer || answer.status !== 200) return 'failed';
        timeoutMs = pace.timeoutMs;
        ours = read(answer.body, machine, ours, options);
        options.tell(ours.map(({ notice }) => notice));
        return 'heard';
      },
      pace,
      signal,
    );
  };
  const done = async (): Promise<void> => {
    const approved = ours.filter(({ isOursToApprove }) => isOursToApprove);
    // Only the last of several tasks on this machine approves: the others still need their time.
    const isLast = presence?.leave() ?? true;
    if ('wrong' in base || approved.length === 0 || !isLast) return;
    try {
      const answer = await tryAsk(base, {
        method: 'POST',
        path: EVENTS_PATH,
        headers: { ...HEADERS, 'content-type': 'application/json' },
        body: JSON.stringify({ StartRequests: approved.map(({ id }) => ({ EventId: id })) }),
        timeoutMs: pace.timeoutMs,
        signal,
      });
      const how = 'failed' in answer ? answer.failed : `http ${answer.status}`;
      options.log.debug(`told Azure that it need not wait for us: ${how}`);
    } catch {
      // Closed meanwhile: Azure waits until the instant that it named.
    }
  };
  return { run, done };
}

function nameOf(answer: Answer | { readonly failed: string }): string | undefined {
  if ('failed' in answer || answer.status !== 200) return undefined;
  return answer.body.trim() || undefined;
}

/**
 * The events that take this machine away; the ones before if the list cannot be read. The whole list is read each time,
 * whatever its DocumentIncarnation: after a fault that number may start again, and must not hide an event.
 */
function read(
  body: string,
  machine: string,
  before: readonly Ours[],
  { garbage }: SourceOptions,
): readonly Ours[] {
  const list = Events.safeParse(jsonOf(body));
  if (!list.success) {
    garbage('Azure gives a list of scheduled events that makes no sense');
    return before;
  }
  return list.data.Events.filter((event) => names(event, machine)).flatMap((event) => {
    const verb = VERB.get(event.EventType);
    if (verb === undefined) return [];
    // An event that has started is the one that was told, whose instant it does not repeat.
    const known = before.find(({ id }) => id === event.EventId)?.notice.atMs;
    const atMs = instantMs(event.NotBefore) ?? known;
    const what = `Azure ${verb} this machine${atInstant(atMs)}`;
    return {
      id: event.EventId,
      notice: { source: 'azure', kind: 'stop', atMs, what },
      isOursToApprove: event.EventStatus === 'Scheduled' && event.Resources.length === 1,
    };
  });
}

/** The list is that of a whole set of machines. Azure's names are told apart without regard to case. */
function names({ Resources }: Event, machine: string): boolean {
  return Resources.some((name) => name.toLowerCase() === machine.toLowerCase());
}
