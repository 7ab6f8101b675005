import { expect, test } from 'vitest';
import { handlesTerm } from '../../src/launch/term-handlers.ts';

const CATCHES = 'Name:\tx\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000004000\n';
const CATCHES_NONE = 'Name:\tx\nSigIgn:\t0000000000004000\nSigCgt:\t0000000000000002\n';

test.each([
  ['a program that catches SIGTERM', CATCHES, 'sim', './sim\0-n\x003\0', true],
  ['one that does not', CATCHES_NONE, 'sim', './sim\0', false],
  ['one that has ended meanwhile', '', '', '', false],
  ['a bare launcher', CATCHES, 'mpirun', '/opt/mpi/bin/mpirun\0./sim\0', false],
  [
    'a bare launcher whose main thread has another name',
    CATCHES,
    'MainThread',
    '/opt/bin/mpirun\0./sim\0',
    false,
  ],
  ['a bare launcher that is a script', CATCHES, 'mpirun', '/usr/bin/python3\0/opt/bin/mpirun\0', false],
  ['a program that was given the name of a launcher', CATCHES, 'sim', './sim\0mpirun\0', true],
])('makes use of SIGTERM or not: %s', (_, status, comm, cmdline, expected) => {
  expect(handlesTerm(status, comm, cmdline)).toBe(expected);
});
