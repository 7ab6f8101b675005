// One call to the workers on its way to its answer. Only the first answer counts.
import type { Fingerprint } from '../model/file/fingerprint.ts';
import type { RelPath } from '../model/path.ts';
import type { Digest, Reading } from './reading.ts';
import type { WorkerRequest } from './worker-messages.ts';

export interface Task {
  readonly work: WorkerRequest['work'];
  /** The caller gives it up, wherever it is. */
  readonly signal: AbortSignal | undefined;
  /** The file is known to be of more than one part. */
  large: boolean;
  /** The state of the file in an earlier `fresh` answer. */
  seen: Fingerprint | undefined;
  resolve(answer: Reading | Digest): void;
  reject(error: unknown): void;
}

export function pathOf({ work }: Pick<Task, 'work'>): RelPath {
  return work.kind === 'md5' ? work.path : work.job.path;
}

/** Calls `giveUp` when the caller aborts; the function that comes back ends that. */
export function onAbort({ signal }: Task, giveUp: (reason: unknown) => void): () => void {
  const listener = (): void => giveUp(signal?.reason);
  signal?.addEventListener('abort', listener, { once: true });
  return () => signal?.removeEventListener('abort', listener);
}
