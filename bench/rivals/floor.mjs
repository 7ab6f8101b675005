// No tool: what nobody can leave out, done by the simplest program on Node (bench/lib/floor.mjs).
import { fileURLToPath } from 'node:url';
import { withoutZst } from './shell.mjs';

const PROGRAM = fileURLToPath(new URL('../lib/floor.mjs', import.meta.url));

const floorWith = (name, client) => ({
  name,
  needs: [],
  command: (options, argv) => [process.execPath, PROGRAM, client, ...argv],
  nameOf: withoutZst,
});

export const floor = floorWith('what none can leave out', 'http');
export const floorOnSocket = floorWith("the same, without Node's HTTP client", 'socket');
