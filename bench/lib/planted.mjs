// The array that the server plants for the commands that read all of one, and where it stands.
import path from 'node:path';
import { bundle } from './bundle.mjs';
import { BUCKET } from './server.mjs';

export const STORED_AT = `${BUCKET}/run`;
export const RECORDS = `${STORED_AT}/.capture/bench/`;

/** Of the same array, unchanged, nothing is created again. */
export async function plantArray(server, indices) {
  const module = path.join(await bundle('bench/lib/stored-array.ts'), 'stored-array.mjs');
  await server.ask('plant', { module, indices, prefix: 'run/' });
}
