// One death of the task alone, in the middle of a write, with and without a shell above it, and the machine's some
// seconds later; then the next attempt. What it must not find is anything torn.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { EXIT } from '../../../src/model/exit-status.ts';
import type { CaptureRecord } from '../../../src/model/format/records.ts';
import { killTree } from '../../e2e/support.ts';

const TASK = fileURLToPath(new URL('mid-write.sh', import.meta.url));
const BOUND_MS = 60_000;

export interface TaskDeath {
  /** `none`: the program is the task. The others stand above it. */
  readonly above: 'none' | 'shell that passes it on later' | 'shell that lives on';
  /** Which file is torn, from 1; three make a round, and the first round is safe before the second begins. */
  readonly dieAt: number;
  readonly roundMs: number;
  /** From the death of the task to the machine's. */
  readonly gapMs: number;
}

/** Resolves to what was found wrong; undefined: nothing. `dir` is its own. */
export async function dieTwice(bin: string, dir: string, death: TaskDeath): Promise<string | undefined> {
  const log = path.join(dir, 'log');
  fs.writeFileSync(log, '');
  await once(spawn('mkfifo', [`${log}.fifo`]), 'exit');
  const records = path.join(dir, 'store/.capture/t/1');
  const program = [TASK, log, String(death.roundMs), String(death.dieAt), records];
  const first = start(bin, dir, 'work-1', task(death, program));
  const exited = once(first, 'exit');
  await until(() => tornOf(log) !== undefined, 'the death of the task');
  await Promise.race([exited, pause(death.gapMs)]);
  if (first.pid !== undefined) killTree(first.pid);
  await exited;
  const store = path.join(dir, 'store');
  const torn = tornOf(log)?.name ?? '';
  const visible = fs.readdirSync(store).filter((key) => key.startsWith('r.') && !key.includes('.partial-'));
  const bad = visible.find((key) => !isWhole(path.join(store, key)));
  if (bad !== undefined) return `${bad} is torn, and stands under its good name`;
  // What it is given is all that it says.
  const second = start(bin, dir, 'work-2', [
    'bash',
    '-c',
    'exec cat [ab].chk > "$0"',
    path.join(dir, 'given'),
  ]);
  const [code] = (await once(second, 'exit')) as [number | null];
  const given = fs.readFileSync(path.join(dir, 'given'), 'utf8').split('\n').slice(0, -1);
  // It writes no result again: one that is torn is left as the death left it. One that was not stored yet is missed if
  // the checkpoint was made while it stood there, torn or closed: the machine can die before it is sent.
  const partial = fs.readdirSync(store).some((key) => key.startsWith('r.') && key.includes('.partial-'));
  const isLacking = partial || isBehind(store, records);
  if (code !== (isLacking ? EXIT.notStored : EXIT.ok)) return `the next attempt ended with ${code}`;
  if (given.length !== 8 || new Set(given).size !== 1)
    return `after ${torn} was torn the next attempt was given ${given.join(',')}`;
  return undefined;
}

function task({ above }: TaskDeath, program: readonly string[]): readonly string[] {
  const then = {
    none: '',
    'shell that passes it on later': 'sleep 1; exit $rc',
    'shell that lives on': 'sleep 60',
  };
  if (above === 'none') return program;
  return ['bash', '-c', `"$@"; rc=$?; ${then[above]}`, 'bash', ...program];
}

function start(bin: string, dir: string, work: string, command: readonly string[]) {
  const cwd = path.join(dir, work);
  fs.mkdirSync(cwd);
  const said = fs.openSync(path.join(dir, `said-${work}`), 'a');
  const roles = ['-r', 'r.*.dat', '-k', 'a.chk', '-k', 'b.chk', '--compression', 'none'];
  try {
    return spawn(
      bin,
      ['--to', path.join(dir, 'store'), '--index', '1', '--task-name', 't', ...roles, '--', ...command],
      {
        cwd,
        stdio: ['ignore', 'ignore', said],
        env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
      },
    );
  } finally {
    fs.closeSync(said);
  }
}

function tornOf(log: string): { readonly name: string } | undefined {
  const name = /^torn (\S+)/m.exec(fs.readFileSync(log, 'utf8'))?.[1];
  return name === undefined ? undefined : { name };
}

/** Whether the set that the last attempt began with was made while a result stood there that is not stored. */
function isBehind(store: string, records: string): boolean {
  const last =
    fs
      .readdirSync(records)
      .filter((name) => name.endsWith('.json'))
      .toSorted()
      .at(-1) ?? '';
  const { restored, generations } = JSON.parse(
    fs.readFileSync(path.join(records, last), 'utf8'),
  ) as CaptureRecord;
  const set = generations.find(({ attempt, generation }) => `${attempt}-${generation}` === restored);
  return set?.behind?.some((result) => !fs.existsSync(path.join(store, `${result.path}.1`))) ?? false;
}

function isWhole(file: string): boolean {
  const lines = fs.readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.length === 4 && new Set(lines).size === 1;
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + BOUND_MS;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
    // oxlint-disable-next-line no-await-in-loop -- it waits
    await pause(20);
  }
}
