// One schedule as data: the program, what goes wrong, and where. It is made of a seed, and made smaller by the shrinker: so
// all that is chosen before the run stands here, and what is chosen in it comes from the seed alone.
import type { Weather } from '../store/network.ts';

/** How a file gets its content. */
export type Idiom = 'in-place' | 'rename' | 'append';

export interface Write {
  /** Of `files`. */
  readonly file: string;
  /** Closes, each of a content of its own. */
  readonly versions: number;
  /** The same content at each close. */
  readonly isSame?: boolean;
  readonly beforeMs: number;
  /** Between two of its closes. */
  readonly betweenMs: number;
  /** How long it is open. */
  readonly openMs: number;
  /** Just before, a process of the task comes and goes. */
  readonly child?: boolean;
  /** A process that the task has left behind does it, while the task goes on or ends. */
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
  /** At the system call with this number that it makes after that instant. */
  | { readonly kind: 'sidecar-dies-at-call'; readonly atMs: number; readonly calls: number }
  | { readonly kind: 'sidecar-stalls' | 'machine-freezes'; readonly atMs: number; readonly ms: number }
  /** A source of notices says that the machine will be taken away; `--grace` says when. */
  | { readonly kind: 'notice'; readonly atMs: number; readonly graceMs: number }
  /** No room is left for capture below this directory. */
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
  /** For people, and for the count of what was tried. */
  readonly kind: string;
  readonly command: 'run' | 'watch';
  /** With `watch`: the task has been at work for so long. */
  readonly watchAfterMs: number;
  /** With `watch`: does the task's shell write how it ended? A shell that is killed with it does not. */
  readonly exitFile: 'always' | 'unless-killed' | 'none';
  readonly store: 's3' | 'file';
  /** Of a server that speaks S3: it keeps to If-Match. */
  readonly honoursIfMatch: boolean;
  /** Names of members are new in each round, of which so many stay. */
  readonly rotates: number;
  /** Members stand in a directory: it is written file by file, or renamed into place when it is whole. */
  readonly directory?: 'written' | 'renamed' | undefined;
  readonly files: readonly FilePlan[];
  readonly rounds: readonly Round[];
  readonly attempts: readonly AttemptPlan[];
  readonly sameWorkdir: boolean;
  readonly weather: Weather;
  readonly options: readonly string[];
  readonly osRelease: string;
  readonly tickMs: number;
  readonly mostQueuedEvents: number;
}
