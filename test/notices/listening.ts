// Opens notice sources for a test, with a pace that no test has to wait for, and keeps all that they say.
import { vi } from 'vitest';
import type { Notice, NoticeChoice } from '../../src/model/format/notice.ts';
import { openNotices, type Notices } from '../../src/notices/notices.ts';
import type { Pace } from '../../src/notices/source.ts';
import { metadataServer, type Answering, type MetadataServer } from './metadata-server.ts';

export interface Listening extends Notices {
  readonly told: Notice[];
  readonly withdrawn: Notice[];
  /** Both, in their order: `+ what`, `- what`. */
  readonly order: string[];
  /** `warn: message`, hints in a line of their own. */
  readonly said: string[];
}

/** Answers come at once; the limits are only there for hangs. */
const PACE: Pace = { pollMs: 2, timeoutMs: 20_000, slowTimeoutMs: 20_000 };

const opened: (() => unknown)[] = [];

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** `pace` may be changed later. */
export function listenTo(
  choice: NoticeChoice | readonly NoticeChoice[],
  options: {
    env?: NodeJS.ProcessEnv;
    pace?: Partial<Mutable<Pace>>;
  } = {},
): Listening {
  const told: Notice[] = [];
  const withdrawn: Notice[] = [];
  const order: string[] = [];
  const said: string[] = [];
  const say =
    (level: string) =>
    (message: string, { hint }: { hint?: string } = {}): void => {
      said.push(`${level}: ${message}${hint === undefined ? '' : `\ntry: ${hint}`}`);
    };
  const notices = openNotices({
    choices: [choice].flat(),
    env: options.env ?? {},
    log: { debug: say('debug'), info: say('info'), warn: say('warn') },
    onNotice: (notice) => {
      told.push(notice);
      order.push(`+ ${notice.what}`);
    },
    onWithdrawn: (notice) => {
      withdrawn.push(notice);
      order.push(`- ${notice.what}`);
    },
    pace: Object.assign(options.pace ?? {}, { ...PACE, ...options.pace }),
  });
  opened.push(() => notices.close());
  return { ...notices, told, withdrawn, order, said };
}

export async function serve(answer: Answering): Promise<MetadataServer> {
  const server = await metadataServer(answer);
  opened.push(async () => server.close());
  return server;
}

/** To be done after the test, however it ends; `finally` is not reached when a test runs out of time. */
export function afterwards(close: () => unknown): void {
  opened.push(close);
}

/** Ends what the test has opened. */
export async function closeAll(): Promise<void> {
  for (const close of opened.splice(0).toReversed()) await close();
}

/** Until it holds, or the test has failed. */
export async function until(check: () => void): Promise<void> {
  await vi.waitFor(check, { timeout: 30_000, interval: 2 });
}
