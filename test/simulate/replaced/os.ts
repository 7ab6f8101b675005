// node:os: facts of the simulated machine.
import realOs from 'node:os';
import { theWorld } from '../machine/world.ts';

export const { constants, EOL } = realOs;
export const release = (): string => theWorld().osRelease;
export const tmpdir = (): string => '/tmp';
export const hostname = (): string => 'node1';
export const homedir = (): string => '/root';
export const availableParallelism = (): number => 4;
export const cpus = (): readonly unknown[] => [1, 2, 3, 4];
export const loadavg = (): readonly number[] => [0, 0, 0];
export const totalmem = (): number => 2 ** 34;
export const freemem = (): number => 2 ** 33;
export const platform = (): string => 'linux';
export const arch = (): string => 'x64';
export const type = (): string => 'Linux';
export const userInfo = (): unknown => ({
  uid: 0,
  gid: 0,
  username: 'root',
  homedir: '/root',
  shell: '/bin/sh',
});
export const setPriority = (): void => undefined;
export const getPriority = (): number => 0;
