// The start of the sidecar's bundle: the process is the sidecar, and its threads are workers.
import { isMainThread } from 'node:worker_threads';

void (isMainThread ? import('./main.ts') : import('../read/worker.ts'));
