// GCE's metadata server: is this machine preempted, or stopped for its host's maintenance? It answers when something
// changes, so there is no polling. Compute Engine documentation, "View and query VM metadata" (wait_for_change,
// last_etag, timeout_sec), "Spot VMs" and "Query metadata server for maintenance events".
import type { Notice } from '../model/format/notice.ts';
import { type Answer, askAtFirst, baseUrl, poll, tryAsk } from './metadata.ts';
import { reportAbsent, type Source, type SourceOptions } from './source.ts';

const KEYS = ['preempted', 'maintenance-event'] as const;
type Key = (typeof KEYS)[number];

/** In the request and in the answer: only Google's own server sends it. */
const FLAVOR = { 'metadata-flavor': 'Google' } as const;
/** The server answers after this time at the latest; a dead connection is noticed a little later. */
const LONGEST_WAIT_SECONDS = 300;
const LATE_MS = 30_000;

/** `GCE_METADATA_HOST` (host, or host:port) is the variable of Google's own clients. */
export class GceSource implements Source {
  readonly #options: SourceOptions;

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  run(): Promise<void> {
    return listen(this.#options);
  }
}

async function listen(options: SourceOptions): Promise<void> {
  const { env, pace, signal } = options;
  const host = env['GCE_METADATA_HOST'] ?? '';
  const base = baseUrl(host === '' ? undefined : `http://${host}`);
  if ('wrong' in base) {
    reportAbsent(options, `no notices from GCE: GCE_METADATA_HOST ${base.wrong}`);
    return;
  }
  const question = { headers: FLAVOR, timeoutMs: pace.timeoutMs, signal };
  const first = await askAtFirst(base, { ...question, path: pathOf('preempted') }, pace);
  if ('failed' in first || !isGoogle(first)) {
    const why = 'failed' in first ? first.failed : `http ${first.status}, not from Google's server`;
    reportAbsent(options, `no notices from GCE: its metadata server does not answer (${why})`);
    return;
  }
  const standing = new Map<Key, Notice | undefined>();
  const follow = async (key: Key): Promise<void> => {
    let etag = '';
    await poll(
      async () => {
        // The first request returns the current etag, to wait for a change from there; its value may already be the
        // notice.
        const path = etag === '' ? pathOf(key) : changePath(key, etag);
        const timeoutMs = etag === '' ? pace.timeoutMs : LONGEST_WAIT_SECONDS * 1000 + LATE_MS;
        const answer = await tryAsk(base, { ...question, path, timeoutMs });
        if ('failed' in answer || answer.status !== 200 || !isGoogle(answer)) return 'failed';
        etag = answer.headers.etag ?? '';
        standing.set(key, noticeOf(key, answer.body.trim(), standing.get(key), options));
        options.tell([...standing.values()].filter((notice) => notice !== undefined));
        return 'heard';
      },
      pace,
      signal,
    );
  };
  await Promise.all(KEYS.map(follow));
}

function pathOf(key: Key): string {
  return `/computeMetadata/v1/instance/${key}`;
}

function changePath(key: Key, etag: string): string {
  const query = new URLSearchParams({
    wait_for_change: 'true',
    last_etag: etag,
    timeout_sec: String(LONGEST_WAIT_SECONDS),
  });
  return `${pathOf(key)}?${query.toString()}`;
}

function isGoogle({ headers }: Answer): boolean {
  return headers['metadata-flavor'] === FLAVOR['metadata-flavor'];
}

/** GCE never names the instant. A live migration is no notice: the task continues on another host. */
function noticeOf(
  key: Key,
  value: string,
  before: Notice | undefined,
  { garbage }: SourceOptions,
): Notice | undefined {
  const stop = (what: string): Notice => ({ source: 'gce', kind: 'stop', atMs: undefined, what });
  switch (value) {
    case 'TRUE':
      return stop('GCE preempts this machine');
    case 'TERMINATE_ON_HOST_MAINTENANCE':
      return stop("GCE stops this machine for its host's maintenance");
    case 'FALSE':
    case 'NONE':
    case 'MIGRATE_ON_HOST_MAINTENANCE':
      return undefined;
    default:
      garbage(`GCE says something about this machine that makes no sense (${key})`);
      return before;
  }
}
