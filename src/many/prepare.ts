// --prepare: a command that builds or downloads what the tasks use. It runs once for each worker, in a directory of its
// own, before the first task that needs it. Tasks find the read-only directory in CAPTURED_PREPARED_DIR.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { noteOwnChild } from '../launch/own-children.ts';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import type { Submission } from '../model/many/submission.ts';
import { encodePath } from '../model/path.ts';
import { O_PATH } from '../native/beneath.ts';
import { allEntriesIn } from '../native/directory-entries.ts';
import { openRegular } from '../native/files.ts';
import { sendSignal } from '../native/processes.ts';
import { lastLines } from './last-lines.ts';
import type { Readiness } from './board.ts';

export interface Prepared {
  /** Starts the preparation if it has not started yet and may start now. */
  ask(submission: Submission): Readiness;
  /** Undefined if the submission needs none, or its directory is not ready. */
  dirOf(submission: Submission): string | undefined;
  isUnderWay(): boolean;
  /** Running commands are stopped while `isHeld`. */
  hold(isHeld: boolean): void;
  /** Ends running commands, and makes all directories removable. */
  close(): Promise<void>;
}

interface PrepareOptions {
  /**
   * The directories are created below it. It belongs to this worker's scratch directory, which is removed at the end.
   */
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  readonly log: Pick<Log, 'info'>;
  readonly changed: () => void;
  /** If false, the command waits. */
  readonly mayBegin: () => boolean;
  /** Running children that we started ourselves; this module keeps the set up to date. */
  readonly ownChildren: Set<number>;
}

export function openPrepared(options: PrepareOptions): Prepared {
  const { root, log, changed } = options;
  const places = new Map<string, Readiness>();
  const underWay = new Set<Promise<void>>();
  /** Process groups of the running commands. */
  const groups = new Set<number>();
  const stop = new AbortController();
  const dirOf = (key: string): string => path.join(root, `prepared-${key}`);
  const begin = (submission: Submission, key: string): Readiness => {
    const place: Readiness = { kind: 'under-way' };
    places.set(key, place);
    log.info(`${submission.name}: prepares in ${dirOf(key)}`);
    const done = run(submission, dirOf(key), { ...options, groups }, stop.signal).then((why) => {
      const hint = `look at ${dirOf(key)}.log; then start this worker again`;
      places.set(
        key,
        why === undefined ? { kind: 'ready' } : { kind: 'never', why: `--prepare ${why}`, hint },
      );
      underWay.delete(done);
      changed();
    });
    underWay.add(done);
    return place;
  };
  const ask = (submission: Submission): Readiness => {
    const key = keyOf(submission);
    const place = places.get(key);
    if (place !== undefined) return place;
    return options.mayBegin() ? begin(submission, key) : { kind: 'under-way' };
  };
  return {
    ask,
    dirOf: (submission) => {
      if (submission.prepare === undefined) return undefined;
      const key = keyOf(submission);
      return places.get(key)?.kind === 'ready' ? dirOf(key) : undefined;
    },
    isUnderWay: () => underWay.size > 0,
    hold: (isHeld) => {
      for (const group of groups) sendSignal(-group, isHeld ? 'SIGSTOP' : 'SIGCONT');
    },
    close: async () => {
      stop.abort();
      await Promise.all(underWay);
      // Failed preparations, too, may have left read-only directories.
      for (const key of places.keys()) if (fs.existsSync(dirOf(key))) setWritable(dirOf(key), true);
      places.clear();
    },
  };
}

/** The key is a hash of the content, so two submissions with the same command share a directory. */
function keyOf({ prepare = '', cwd }: Submission): string {
  return createHash('sha256')
    .update(JSON.stringify([prepare, cwd]))
    .digest('hex')
    .slice(0, KEY_LENGTH);
}

const KEY_LENGTH = 16;

/** Undefined if it worked, else the reason. */
async function run(
  { prepare = '', cwd }: Submission,
  dir: string,
  { env, ownChildren, groups }: PrepareOptions & { readonly groups: Set<number> },
  signal: AbortSignal,
): Promise<string | undefined> {
  const logFile = `${dir}.log`;
  try {
    signal.throwIfAborted();
    fs.mkdirSync(dir, { mode: 0o700 });
    const { O_WRONLY, O_APPEND, O_CREAT } = fs.constants;
    const log = openRegular(logFile, O_WRONLY | O_APPEND | O_CREAT);
    try {
      const child = spawn('/bin/sh', ['-c', prepare], {
        cwd: dir,
        env: { ...env, CAPTURED_PREPARED_DIR: dir, CAPTURED_SUBMIT_DIR: cwd },
        stdio: ['ignore', log, log],
        // A process group of its own: all its children end with it, and Ctrl-C reaches it only through us.
        detached: true,
      });
      noteOwnChild(child, ownChildren);
      const { pid } = child;
      if (pid !== undefined) groups.add(pid);
      const end = (): void => {
        if (pid !== undefined) sendSignal(-pid, 'SIGKILL');
      };
      signal.addEventListener('abort', end, { once: true });
      const exited = once(child, 'exit') as Promise<[number | null, string | null]>;
      const [code, by] = await exited.finally(() => signal.removeEventListener('abort', end));
      // Background processes could still write into the directory, which becomes read-only now, and could outlive us.
      end();
      if (pid !== undefined) groups.delete(pid);
      if (code !== 0) return failure(`ended with ${by ?? `exit status ${code}`}`, logFile);
    } finally {
      fs.closeSync(log);
    }
    setWritable(dir, false);
    return undefined;
  } catch (error) {
    return `cannot be run: ${reasonOf(error)}`;
  }
}

function failure(how: string, logFile: string): string {
  const last = lastLines(logFile).at(-1);
  return last === undefined ? how : `${how}: ${last}`;
}

const WRITE = 0o222;
const OWNER_WRITE = 0o200;

/**
 * Works recursively, through open directories: whatever takes the place of a name meanwhile, no link is followed. A file
 * with another name (a hard link) stays as it is: that name may be the user's, elsewhere.
 */
function setWritable(name: string, isWritable: boolean): void {
  const fd = fs.openSync(encodePath(name), O_PATH | fs.constants.O_NOFOLLOW);
  try {
    const stat = fs.fstatSync(fd);
    if (stat.isSymbolicLink()) return;
    const at = `/proc/self/fd/${fd}`;
    if (stat.isDirectory()) for (const one of allEntriesIn(at)) setWritable(`${at}/${one.name}`, isWritable);
    if (stat.isDirectory() || (!isWritable && stat.nlink === 1))
      fs.chmodSync(at, isWritable ? stat.mode | OWNER_WRITE : stat.mode & ~WRITE);
  } finally {
    fs.closeSync(fd);
  }
}
