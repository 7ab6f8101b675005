// Commands that ask Slurm: its programs are scripts in a directory of their own, first in PATH.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN } from '../../e2e/support.ts';
import { SQUEUE } from '../../../src/scheduler/slurm-answers.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
let dir: string;

beforeEach(async () => {
  stored = await openStoreOfRecords('a directory');
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-slurm-'));
  answers('scontrol', 'ClusterName = lab\nPrivateData = none\n');
});
afterEach(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true });
});

const HEADER = 'JOBID|ARRAY_JOB_ID|ARRAY_TASK_ID|STATE\n';

/** Each call leaves a line with its words in `<program>.calls`. */
function program(name: string, body: string): void {
  const file = path.join(dir, name);
  fs.writeFileSync(file, `#!/bin/sh\necho "$*$SQUEUE_USERS$SLURM_CLUSTERS" >>"${file}.calls"\n${body}\n`, {
    mode: 0o755,
  });
}

function answers(name: string, said: string): void {
  fs.writeFileSync(path.join(dir, `${name}.txt`), said);
  program(name, `cat "${dir}/${name}.txt"`);
}

function calls(name: string): readonly string[] {
  const file = path.join(dir, `${name}.calls`);
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trimEnd().split('\n') : [];
}

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | null;
}

async function capture(words: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const [name = '', ...args] = words;
  const child = spawn(BIN, [name, stored.url, ...args], {
    env: { PATH: `${dir}:${process.env['PATH']}`, ...stored.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { stdout, stderr, status: child.exitCode };
}

/** The claim of an index of array 12, whose job is 100 + index. `task`: its number there, with --index-map. */
function claim(
  index: number,
  {
    cluster = 'lab',
    kind = 'started',
    task = index,
  }: { cluster?: string; kind?: string; task?: number } = {},
): void {
  stored.record({
    index: String(index),
    attempt: 1,
    seq: kind === 'started' ? 0 : 2,
    kind: kind as 'started',
    scheduler: {
      SLURM_JOB_ID: String(100 + index),
      SLURM_ARRAY_JOB_ID: '12',
      SLURM_ARRAY_TASK_ID: String(task),
      SLURM_CLUSTER_NAME: cluster,
    },
  });
}

const UNFINISHED = ['status', '--array', '0-9', '--unfinished'];

describe('capture status --unfinished', () => {
  it('prints what nobody runs: missing, failed, preempted, and running ones whose job is gone', async () => {
    claim(0);
    claim(1);
    claim(2);
    claim(3, { kind: 'failed' });
    claim(4, { kind: 'preempted' });
    claim(5, { kind: 'preempted', task: 77 });
    claim(6, { kind: 'done' });
    // 101 was cancelled a minute ago, nobody remembers 102, 105 is requeued, and task 8 has not begun.
    answers(
      'squeue',
      HEADER +
        '100|12|0|RUNNING\n101|12|1|CANCELLED\n105|12|77|PENDING\n12|12|8|PENDING\n12|12|9|PENDING\n7|7|N/A|RUNNING\n',
    );
    const ran = await capture(UNFINISHED, { SQUEUE_USERS: 'nobody', SLURM_CLUSTERS: 'other' });
    expect(ran).toEqual({ stdout: '1-4,7\n', stderr: '', status: 1 });
    expect(calls('squeue')).toEqual([SQUEUE.join(' ')]);
  });

  it('knows what waits in an array of which all that has begun is done', async () => {
    claim(0, { kind: 'done' });
    answers('squeue', `${HEADER}12|12|1|PENDING\n`);
    expect((await capture(['status', '--array', '0-2', '--unfinished'])).stdout).toBe('2\n');
  });

  it('is the four other options together where Slurm is not asked', async () => {
    claim(0);
    claim(3, { kind: 'failed' });
    claim(4, { kind: 'preempted' });
    fs.rmSync(path.join(dir, 'scontrol'));
    const ran = await capture(UNFINISHED, { PATH: dir, CAPTURE_NODE: process.execPath });
    expect(ran).toEqual({ stdout: '1-9\n', stderr: '', status: 1 });
  });

  it('is no option beside one of them, and needs --array', async () => {
    const ran = await capture(['status', '--unfinished', '--failed']);
    expect(ran.status).toBe(64);
    expect(ran.stderr).toContain('--unfinished needs to know which there should be');
    expect(ran.stderr).toContain('--unfinished includes --failed');
  });
});

describe('an index that was preempted', () => {
  it.each([
    ['PENDING', 'preempted, requeued', true],
    ['CANCELLED', 'preempted', undefined],
  ])('and whose job is %s is shown as %s', async (state, shown, requeued) => {
    claim(0);
    claim(3, { kind: 'preempted' });
    answers('squeue', `${HEADER}100|12|0|RUNNING\n103|12|3|${state}\n`);
    const table = (await capture(['status'])).stdout;
    expect(table.split('\n').find((line) => line.startsWith('3'))).toMatch(new RegExp(`^3 +${shown} +1 `));
    const { indices } = JSON.parse((await capture(['status', '--json'])).stdout) as {
      indices: { requeued?: boolean }[];
    };
    expect(indices[1]?.requeued).toBe(requeued);
    expect((await capture(['status', '3'])).stdout).toContain(`index 3 of t: ${shown}\n`);
  });
});

describe('an index that runs', () => {
  it('is stale for each command at once if its job is gone', async () => {
    claim(0);
    answers('squeue', HEADER);
    expect((await capture(['status', '--json'])).stdout).toContain('"state":"stale"');
    expect((await capture(['status', '0'])).stdout).toContain('index 0 of t: stale');
    expect((await capture(['rm', '--index', '0', '--yes'])).stderr).toContain('index 0 is stale');
    expect((await capture(['wait', '--timeout', '1s'])).stderr).toContain('1 index: 1 stale');
  });

  it('runs if its job is one of another cluster, and nobody asks for that', async () => {
    claim(0, { cluster: 'other' });
    answers('squeue', HEADER);
    expect((await capture(['status', '--json'])).stdout).toContain('"state":"running"');
    expect(calls('squeue')).toEqual([]);
  });

  it('runs if its job may be hidden, unless the accounts know that it has ended', async () => {
    claim(0);
    claim(1);
    answers('scontrol', 'ClusterName = lab\nPrivateData = jobs\n');
    answers('squeue', HEADER);
    answers('sacct', '100|CANCELLED by 1000\n');
    const { counts } = JSON.parse((await capture(['status', '--json'])).stdout) as { counts: object };
    expect(counts).toMatchObject({ stale: 1, running: 1 });
    expect(calls('sacct')).toHaveLength(1);
  });

  it('is stale if the accounts know that its job has ended, though squeue prints nothing', async () => {
    claim(0);
    claim(1);
    answers('squeue', '');
    answers('sacct', '100|CANCELLED by 1000\n');
    const { counts } = JSON.parse((await capture(['status', '--json'])).stdout) as { counts: object };
    expect(counts).toMatchObject({ stale: 1, running: 1 });
  });

  it('runs if it gave a sign of life since squeue must show its job, though squeue shows none', async () => {
    claim(0);
    claim(1);
    answers('scontrol', 'ClusterName = lab\nPrivateData = none\nMinJobAge = 300 sec\n');
    answers('squeue', HEADER);
    answers('sacct', '100|CANCELLED by 1000\n');
    const { stdout, stderr } = await capture(['status', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ counts: { running: 1, stale: 1 } });
    expect(stderr).toContain('squeue: it does not show job 100, which gave a sign of life within MinJobAge');
  });

  it('is stale if its sign of life is older than that', async () => {
    claim(0);
    answers('scontrol', 'ClusterName = lab\nPrivateData = none\nMinJobAge = 60 sec\n');
    answers('squeue', HEADER);
    const { stdout, stderr } = await capture(['status', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ counts: { running: 0, stale: 1 } });
    expect(stderr).toBe('');
  });

  it('keeps the record that its task leaves while Slurm is asked', async () => {
    claim(0);
    claim(1);
    const done = path.join(stored.url.slice('file://'.length), '.capture/t/0');
    stored.record({ index: '2', attempt: 1, seq: 2, kind: 'done' });
    const from = path.join(stored.url.slice('file://'.length), '.capture/t/2/0001-000002.done.json');
    program('squeue', `cp "${from}" "${done}/0001-000002.done.json"; printf '${HEADER}'`);
    const { counts } = JSON.parse((await capture(['status', '--json'])).stdout) as { counts: object };
    expect(counts).toMatchObject({ stale: 1, done: 2 });
  });

  it.each([
    [
      'fails',
      'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1',
      'Unable to contact',
    ],
    ['prints something else', 'echo "JOBID STATE"', 'not understood'],
    ['prints nothing, as a wrapper that hides a failure', 'exit 0', 'not understood'],
  ])('runs if squeue %s, which is told once', async (_how, body, why) => {
    claim(0);
    claim(1);
    program('squeue', body);
    const { stdout, stderr } = await capture(['status', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ counts: { running: 2, stale: 0 } });
    expect(stderr.match(/Slurm cannot be asked/g)).toHaveLength(1);
    expect(stderr).toContain(why);
  });

  it('is nobody to ask about, and nothing to tell, if no record names a job', async () => {
    stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
    program('scontrol', 'exit 1');
    expect((await capture(['status'])).stderr).toBe('');
    claim(1);
    expect((await capture(['status'])).stderr).toContain('scontrol: exit 1');
  });
});
