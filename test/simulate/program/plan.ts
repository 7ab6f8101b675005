// One schedule as data: the program, what goes wrong, and where. A seed makes it, and the shrinker makes it smaller. So
// it holds all that is chosen before the run; what is chosen during the run comes from the seed alone.
import type { Weather } from '../store/network.ts';

/** How a file gets its content. `held`: it is open, and appended to, from the task's beginning to its end. */
export type Idiom = 'in-place' | 'rename' | 'append' | 'held';

export interface Write {
  /** The name of a file in `files`. */
  readonly file: string;
  /** The number of closes, each with a content of its own. */
  readonly versions: number;
  /** Every close has the same content. */
  readonly isSame?: boolean;
  readonly beforeMs: number;
  /** The time between two closes. */
  readonly betweenMs: number;
  /** The time that it stays open. */
  readonly openMs: number;
  /** Just before, the task starts a process that ends again. */
  readonly child?: boolean;
  /** A daemon that the task has started writes it, while the task goes on or ends. */
  readonly daemon?: boolean;
}

export interface Round {
  readonly writes: readonly Write[];
  readonly pauseMs: number;
  /** The task runs `capture flush` at its end. */
  readonly flush?: boolean;
}

export type Fault =
  | {
      readonly kind: 'sidecar-dies' | 'launcher-dies' | 'machine-dies' | 'task-dies' | 'term';
      readonly atMs: number;
    }
  /** At this system call after that instant. */
  | { readonly kind: 'sidecar-dies-at-call'; readonly atMs: number; readonly calls: number }
  | { readonly kind: 'sidecar-stalls' | 'machine-freezes'; readonly atMs: number; readonly ms: number }
  /** A notice source says that the machine will be taken away; `--grace` says when. */
  | { readonly kind: 'notice'; readonly atMs: number; readonly graceMs: number }
  /** Capture finds no room below this directory. */
  | {
      readonly kind: 'disk-full';
      readonly below: '/work' | '/store';
      readonly atMs: number;
      readonly ms: number;
    };

export interface FilePlan {
  readonly name: string;
  readonly role: 'member' | 'result';
  readonly idiom: Idiom;
  readonly fillBytes: number;
}

export interface AttemptPlan {
  readonly faults: readonly Fault[];
}

export interface Plan {
  readonly seed: number;
  /** A name for people, and for the counts of what was tried. */
  readonly kind: string;
  readonly command: 'run' | 'watch';
  /** With `watch`: how long the task has run before it. */
  readonly watchAfterMs: number;
  /** With `watch`: whether the task's shell writes how the task ended. A shell that is killed with it does not. */
  readonly exitFile: 'always' | 'unless-killed' | 'none';
  readonly store: 's3' | 'file';
  /** The S3 server honours If-Match. */
  readonly honoursIfMatch: boolean;
  /** Members get new names in each round, and this many rounds are kept. */
  readonly rotates: number;
  /** Members are in a directory, which is written file by file, or is renamed into place once it is complete. */
  readonly directory?: 'written' | 'renamed' | undefined;
  readonly files: readonly FilePlan[];
  readonly rounds: readonly Round[];
  /** A shell runs the program, and ends so long after it, with its status. */
  readonly shellMs?: number | undefined;
  readonly attempts: readonly AttemptPlan[];
  readonly sameWorkdir: boolean;
  /** After each close it puts the file's mtime back, as cp -p and tar do: all states of a file have the same one. */
  readonly putsTimesBack?: boolean;
  /** Now and then a result gets the content again that it had before the last one. */
  readonly returns?: boolean;
  /** Like make(1), the program does not write a result that is there when it begins. */
  readonly skipsPresent?: boolean;
  readonly weather: Weather;
  readonly options: readonly string[];
  readonly osRelease: string;
  readonly tickMs: number;
  readonly mostQueuedEvents: number;
}

/** Each member is written, or none is. Two rounds with one of two members each look like one round. */
export function isWhole(writes: readonly Write[], { files }: Plan): boolean {
  const written = new Set(writes.map(({ file }) => file));
  const members = files.filter(({ role }) => role === 'member');
  return new Set(members.map(({ name }) => written.has(name))).size < 2;
}
