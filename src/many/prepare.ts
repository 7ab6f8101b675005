// --prepare: a command that runs once for a worker, in a directory of its own, before the first task that asks for it: it
// builds or downloads what the tasks use. They find the directory in CAPTURED_PREPARED_DIR, and cannot write there.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { noteOwn } from '../launch/own-children.ts';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import type { Submission } from '../model/many/submission.ts';
import { openRegular } from '../native/files.ts';
import { sendSignal } from '../native/processes.ts';
import { lastLines } from './last-lines.ts';
import type { Readiness } from './board.ts';

export interface Prepared {
  /** Begins with it if nobody has, and it may. */
  ask(submission: Submission): Readiness;
  /** Undefined if the submission needs none, or it is not ready. */
  dirOf(submission: Submission): string | undefined;
  isUnderWay(): boolean;
  /** What is under way stands still as long as `isHeld`. */
  hold(isHeld: boolean): void;
  /** Ends what is under way, and makes all of it removable. */
  close(): Promise<void>;
}

interface PrepareOptions {
  /** Below it the directories are made: scratch of this worker, which removes them. */
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  readonly log: Pick<Log, 'info'>;
  readonly changed: () => void;
  /** Else it waits until it may. */
  readonly mayBegin: () => boolean;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
}

export function openPrepared(options: PrepareOptions): Prepared {
  const { root, log, changed } = options;
  const places = new Map<string, Readiness>();
  const underWay = new Set<Promise<void>>();
  /** Process groups of what is under way. */
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
      // Also of one that failed: it may have made read-only directories of its own.
      for (const key of places.keys()) if (fs.existsSync(dirOf(key))) setWritable(dirOf(key), true);
      places.clear();
    },
  };
}

/** By its content: two submissions with the same command share it. */
function keyOf({ prepare = '', cwd }: Submission): string {
  return createHash('sha256')
    .update(JSON.stringify([prepare, cwd]))
    .digest('hex')
    .slice(0, KEY_LENGTH);
}

const KEY_LENGTH = 16;

/** Undefined if it worked, else why not. */
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
        // A process group of its own: it ends with all its children, and Ctrl-C reaches it only through us.
        detached: true,
      });
      noteOwn(child, ownChildren);
      const { pid } = child;
      if (pid !== undefined) groups.add(pid);
      const end = (): void => {
        if (pid !== undefined) sendSignal(-pid, 'SIGKILL');
      };
      signal.addEventListener('abort', end, { once: true });
      const exited = once(child, 'exit') as Promise<[number | null, string | null]>;
      const [code, by] = await exited.finally(() => signal.removeEventListener('abort', end));
      // What it has left in the background would write what is made read-only now, and outlive us.
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

/** Also of what is below it; links are left alone, as they lead elsewhere. */
function setWritable(dir: string, isWritable: boolean): void {
  for (const entry of fs.readdirSync(dir, { withFileTypes: true, recursive: true })) {
    if (entry.isSymbolicLink()) continue;
    const full = path.join(entry.parentPath, entry.name);
    if (entry.isDirectory() || !isWritable) setMode(full, isWritable);
  }
  setMode(dir, isWritable);
}

const WRITE = 0o222;
const OWNER_WRITE = 0o200;

function setMode(full: string, isWritable: boolean): void {
  const { mode } = fs.lstatSync(full);
  fs.chmodSync(full, isWritable ? mode | OWNER_WRITE : mode & ~WRITE);
}
