// The way into reading: what the upload calls. Never blocks the thread that it is called on.
import { showPath, type RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/work-dir.ts';
import { partSizeBytes } from './parts.ts';
import type { Digest, RangeJob, ReadJob, Reading } from './reading.ts';
import type { CompressorName } from './worker-messages.ts';
import { WorkerPool } from './worker-pool.ts';

export interface WorkersOptions {
  /** Stays the caller's. */
  readonly root: WorkDir;
  /** Workers at most; with two or more the first is kept for files of one part. */
  readonly count: number;
  /** The bundled src/read/worker.ts. */
  readonly entry: URL | string;
  /** Where spools are made; undefined: nowhere. */
  readonly spoolDir?: string;
  /** Size of one spool at most. */
  readonly spoolLimitBytes: number;
}

export interface Workers {
  /**
   * One consistent reading of a file beneath the root. Every state of the file is an answer; throws when it
   * cannot be read (EIO) or its worker died. `signal` holds for the body too: its abort ends the parts.
   */
  read(job: ReadJob, signal?: AbortSignal): Promise<Reading>;
  /**
   * The end of a file that is being appended to, whoever has it open. `moved` when the file is shorter than
   * the range's end, or another file stands at its path.
   */
  range(job: RangeJob, signal?: AbortSignal): Promise<Reading>;
  /** The md5 of one consistent reading, without a body. */
  md5(path: RelPath, signal?: AbortSignal): Promise<Digest>;
  /** What compresses here; `none` deserves a warning. Starts the first worker. */
  compressor(): Promise<CompressorName>;
  /** Gives up all that is under way, which then throws, and ends the threads. */
  close(): Promise<void>;
}

/** Workers start on first use. Installs a SIGIO handler, without which a lease could end the process. */
export function openLanes({ root, count, entry, spoolDir, spoolLimitBytes }: WorkersOptions): Workers {
  if (!process.listeners('SIGIO').includes(ignoreLeaseBreak)) process.on('SIGIO', ignoreLeaseBreak);
  const spool = spoolDir === undefined ? undefined : { dir: spoolDir, limitBytes: spoolLimitBytes };
  // Two fields only: what crosses to a thread must be plain data.
  const pool = new WorkerPool(count, { entry, data: { root: { fd: root.fd, path: root.path }, spool } });
  return {
    read: async (job, signal) => {
      const isLarge = (job.expected?.size ?? 0) > partSizeBytes(0);
      const answer = await pool.submit({ kind: 'read', job }, isLarge, signal);
      if (answer.kind === 'md5') throw new Error(`no body of ${showPath(job.path)}`);
      return answer;
    },
    range: async (job, signal) => {
      const answer = await pool.submit({ kind: 'range', job }, false, signal);
      if (answer.kind === 'md5') throw new Error(`no body of ${showPath(job.path)}`);
      return answer;
    },
    md5: async (path, signal) => {
      const answer = await pool.submit({ kind: 'md5', path }, false, signal);
      if (answer.kind === 'body' || answer.kind === 'unchanged')
        throw new Error(`no md5 of ${showPath(path)}`);
      return answer;
    },
    compressor: () => pool.compressor(),
    close: () => pool.close(),
  };
}

/** A writer that opens a file in the moment of our lease sends SIGIO, whose default action is to end us. */
function ignoreLeaseBreak(): void {}
