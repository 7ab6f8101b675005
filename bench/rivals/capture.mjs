// capture itself, as it is built, with its defaults.
import { fileURLToPath } from 'node:url';
import { BUCKET } from '../lib/server.mjs';

const BIN = fileURLToPath(new URL('../../bin/capture', import.meta.url));
const TO = `s3://${BUCKET}/run`;

export const capture = {
  name: 'capture',
  needs: [],
  command: (options, argv) => [BIN, ...captureOptions(TO), ...options, '--', ...argv],
  /** Records are no file. */
  nameOf: (key) =>
    key.startsWith('.capture/') ? undefined : key.replace(/(\.bench)?\.0(\.\d+-\d+)?(\.zst)?$/, ''),
};

export function captureOptions(to) {
  const task = ['--task-name', 'bench', '--log-level', 'warn'];
  return ['--to', to, '--path-style', '-r', '*.dat', '-k', 'k.chk', ...task];
}

export { BIN };
