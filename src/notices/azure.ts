// Azure's scheduled events: will this virtual machine be evicted, deleted, redeployed or restarted? Azure waits until
// the instant in NotBefore, or until everybody has approved. Azure documentation, "Scheduled Events for Linux VMs".
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import * as z from 'zod';
import type { Notice } from '../model/format/notice.ts';
import { type Answer, askAtFirst, baseUrl, jsonOf, poll, tryAsk } from './metadata.ts';
import { reportAbsent, atInstant, instantMs, type Source, type SourceOptions } from './source.ts';

const EVENTS_PATH = '/metadata/scheduledevents?api-version=2020-07-01';
const NAME_PATH = '/metadata/instance/compute/name?api-version=2021-02-01&format=text';
const HEADERS = { metadata: 'true' } as const;

/** Events that take the task's memory or disk away. `Freeze` pauses for seconds, and is no notice. */
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
interface OwnEvent {
  readonly id: string;
  readonly notice: Notice;
  /** Scheduled, and for no other machine: nobody else loses time if capture approves it. */
  readonly isOursToApprove: boolean;
}

/** capture's own variable is `CAPTURE_AZURE_METADATA_ENDPOINT`: Azure's clients have none for this service. */
export class AzureSource implements Source {
  readonly #options: SourceOptions;
  readonly #base: ReturnType<typeof baseUrl>;
  #ours: readonly OwnEvent[] = [];
  #presence: Presence | undefined;

  constructor(options: SourceOptions) {
    this.#options = options;
    this.#base = baseUrl(options.env['CAPTURE_AZURE_METADATA_ENDPOINT']);
  }

  async run(): Promise<void> {
    const { pace, signal, tell } = this.#options;
    const base = this.#base;
    if ('wrong' in base) {
      reportAbsent(this.#options, `no notices from Azure: CAPTURE_AZURE_METADATA_ENDPOINT ${base.wrong}`);
      return;
    }
    const question = { headers: HEADERS, timeoutMs: pace.timeoutMs, signal };
    const named = await askAtFirst(base, { ...question, path: NAME_PATH }, pace);
    const machine = nameOf(named);
    if (machine === undefined) {
      const why = 'failed' in named ? named.failed : `http ${named.status}`;
      reportAbsent(
        this.#options,
        `no notices from Azure: its metadata service does not name this machine (${why})`,
      );
      return;
    }
    this.#presence = showPresence(`azure-${base.host}`);
    signal.addEventListener('abort', () => this.#presence?.leave(), { once: true });
    // The first request enables the service for this machine, which takes up to two minutes.
    let timeoutMs = pace.slowTimeoutMs;
    await poll(
      async () => {
        const answer = await tryAsk(base, { ...question, path: EVENTS_PATH, timeoutMs });
        if ('failed' in answer || answer.status !== 200) return 'failed';
        timeoutMs = pace.timeoutMs;
        this.#ours = read(answer.body, machine, this.#ours, this.#options);
        tell(this.#ours.map(({ notice }) => notice));
        return 'heard';
      },
      pace,
      signal,
    );
  }

  async done(): Promise<void> {
    const { pace, signal, log } = this.#options;
    const base = this.#base;
    const approved = this.#ours.filter(({ isOursToApprove }) => isOursToApprove);
    // Only the last of several tasks on this machine approves: the others still need their time.
    const isLast = this.#presence?.leave() ?? true;
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
      log.debug(`told Azure that it need not wait for us: ${how}`);
    } catch {
      // The source was closed: Azure waits until the instant that it named.
    }
  }
}

function nameOf(answer: Answer | { readonly failed: string }): string | undefined {
  if ('failed' in answer || answer.status !== 200) return undefined;
  return answer.body.trim() || undefined;
}

/**
 * The events that take this machine away; the previous ones if the list cannot be read. The whole list is read each
 * time, whatever its DocumentIncarnation: after a fault that number may restart, and must not hide an event.
 */
function read(
  body: string,
  machine: string,
  before: readonly OwnEvent[],
  { garbage }: SourceOptions,
): readonly OwnEvent[] {
  const list = Events.safeParse(jsonOf(body));
  if (!list.success) {
    garbage('Azure gives a list of scheduled events that makes no sense');
    return before;
  }
  return list.data.Events.filter((event) => names(event, machine)).flatMap((event) => {
    const verb = VERB.get(event.EventType);
    if (verb === undefined) return [];
    // An event that has started no longer has its instant, so the known one is kept.
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

/** The list covers a whole set of machines. Azure's names ignore case. */
function names({ Resources }: Event, machine: string): boolean {
  return Resources.some((name) => name.toLowerCase() === machine.toLowerCase());
}

interface Presence {
  /** Ends this presence. True if no other capture is left; one in another network namespace is not visible. */
  leave(): boolean;
}

/**
 * Shows this process to other captures on this machine that get the same notice, by an abstract socket (unix(7)). All
 * users see it, in any mount namespace, and it vanishes with its process, however that ends. `of`: what these captures
 * have in common. Never fails, and does not keep the process alive.
 */
function showPresence(of: string): Presence {
  const mine = `capture-${of}-${randomUUID()}`;
  const server = net.createServer((socket) => socket.destroy());
  server.on('error', () => undefined);
  server.listen(`\0${mine}`).unref();
  return {
    leave: () => {
      server.close();
      return !namesInUse().some((name) => name.startsWith(`@capture-${of}-`) && !name.startsWith(`@${mine}`));
    },
  };
}

/** proc(5), /proc/net/unix: the last column. An abstract name begins with @, and each NUL in it is shown as @. */
function namesInUse(): readonly string[] {
  try {
    const lines = fs.readFileSync('/proc/net/unix', 'latin1').split('\n');
    return lines.map((line) => line.trim().split(' ').at(-1) ?? '');
  } catch {
    return [];
  }
}
