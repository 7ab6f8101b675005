// The containers of a pod without a container engine: what examples/kubernetes says, carried out in namespaces, with
// the sidecar as another user than the task, and signals in the order of a kubelet.
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseRecord, type CaptureRecord } from '../../src/model/format/records.ts';
import { until } from '../e2e/support.ts';
import { openNode, type Container, type Node } from './node.ts';
import { containersIn, SIMULATE, type Spec } from './pod.ts';

const SIDECAR = 1500;
const TASK = 2500;
/** The uid of the Job. */
const SUBMISSION = '5f0c2a1e-7d1b-4c1e-9a55-0d6f1c2b3a49';

let node: Node;
beforeEach(() => {
  node = openNode();
});
afterEach(() => node.close());

/** With this node's paths in place of the cluster's. */
function containersOf(name: string): ReturnType<typeof containersIn> {
  return containersIn(name, (word) =>
    word
      .replace('s3://my-bucket/sim', `file://${node.store}`)
      .replace(/^\/scratch/, node.work)
      .replace('$(SUBMISSION)', SUBMISSION),
  );
}

const ENV = { JOB_COMPLETION_INDEX: '3', SUBMISSION };

function capture(spec: Spec | undefined, uid = SIDECAR): Container {
  return node.run({ uid, command: [node.capture, ...(spec?.args ?? [])], env: ENV });
}

function task(spec: Spec | undefined): Container {
  fs.writeFileSync(`${node.work}/simulate`, SIMULATE, { mode: 0o755 });
  return node.run({
    uid: TASK,
    command: spec?.command ?? [],
    env: { ...ENV, PATH: `${node.work}:${process.env['PATH'] ?? ''}` },
  });
}

/** A native sidecar counts as started when its probe says so. */
async function started(sidecar: Container, { startupProbe }: Spec): Promise<void> {
  const probe = startupProbe?.exec.command ?? [];
  await until(() => sidecar.exec(probe) === 0, `the startup probe: ${sidecar.output()}`);
}

const reached = (step: number): Promise<void> =>
  until(() => {
    const file = `${node.work}/state.chk`;
    return fs.existsSync(file) && Number(fs.readFileSync(file, 'utf8')) >= step;
  }, `step ${step}`);

const stored = (name: string): string => fs.readFileSync(path.join(node.store, SUBMISSION, name), 'utf8');
function records(): readonly CaptureRecord[] {
  const dir = path.join(node.store, SUBMISSION, '.capture/sim/3');
  return fs
    .readdirSync(dir)
    .toSorted()
    .map((name) => {
      const record = parseRecord(fs.readFileSync(path.join(dir, name), 'utf8'));
      if ('invalid' in record) throw new Error(`${name}: ${record.invalid}`);
      return record;
    });
}

async function restored(): Promise<void> {
  const restore = capture(containersOf('native-sidecar.yaml')['restore']);
  expect(await restore.status, restore.output()).toBe(0);
}

beforeEach(() => {
  fs.writeFileSync(path.join(node.store, 'in.dat'), 'input\n', { mode: 0o644 });
});

describe('a native sidecar, told after the task', () => {
  it('keeps the results of another user, and the next pod goes on from its last checkpoint', async () => {
    await restored();
    const specs = containersOf('native-sidecar.yaml');
    const sidecar = capture(specs['capture']);
    await started(sidecar, specs['capture'] ?? { name: '' });
    const first = task(specs['task']);
    await reached(16);
    // The pod is deleted: the task's container is told, and when it has ended, the sidecar.
    await first.signal('SIGTERM');
    expect(await first.status, first.output()).toBe(85);
    const at = Number(fs.readFileSync(`${node.work}/last`, 'utf8'));
    await sidecar.signal('SIGTERM').catch(() => undefined);
    expect(await sidecar.status, sidecar.output()).toBe(75);
    expect(stored('frame.10.dat.3')).toBe(`frame 10 by ${TASK}\n`);
    expect(records().at(-1)).toMatchObject({ attempt: 1, kind: 'preempted', left: [] });

    node.freshVolume();
    await restored();
    expect(Number(fs.readFileSync(`${node.work}/state.chk`, 'utf8'))).toBe(at);
    const again = containersOf('native-sidecar.yaml');
    const next = capture(again['capture']);
    await started(next, again['capture'] ?? { name: '' });
    const second = task(again['task']);
    expect(await second.status, second.output()).toBe(0);
    expect(await next.status, next.output()).toBe(0);
    for (const frame of [10, 20, 30, 40])
      expect(stored(`frame.${frame}.dat.3`)).toBe(`frame ${frame} by ${TASK}\n`);
    expect(records().at(-1)).toMatchObject({ attempt: 2, kind: 'done', left: [] });
    // Reclaimed, although they are another user's: the volume can be written.
    expect(fs.readdirSync(node.work).filter((name) => name.endsWith('.dat'))).toEqual(['in.dat']);
  });

  it('that is killed and started again goes on with the attempt', async () => {
    await restored();
    const specs = containersOf('native-sidecar.yaml');
    const dead = capture(specs['capture']);
    await started(dead, specs['capture'] ?? { name: '' });
    const run = task(specs['task']);
    await reached(8);
    await dead.signal('SIGKILL');
    expect(await dead.status).not.toBe(0);
    const sidecar = capture(specs['capture']);
    expect(await run.status, run.output()).toBe(0);
    expect(await sidecar.status, sidecar.output()).toBe(0);
    for (const frame of [10, 20, 30, 40]) expect(stored(`frame.${frame}.dat.3`)).toContain(`frame ${frame}`);
    expect(records().at(-1)).toMatchObject({ attempt: 1, kind: 'done' });
  });
});

describe('a second container, told together with the task', () => {
  it('waits for the last checkpoint and the word of the task', async () => {
    const specs = containersOf('second-container.yaml');
    const restore = capture(specs['restore']);
    expect(await restore.status, restore.output()).toBe(0);
    // In no order.
    const run = task(specs['task']);
    const sidecar = capture(specs['capture']);
    await reached(12);
    await Promise.all([sidecar.signal('SIGTERM'), run.signal('SIGTERM')]);
    expect(await run.status, run.output()).toBe(85);
    expect(await sidecar.status, sidecar.output()).toBe(75);
    const last = records().at(-1);
    expect(last).toMatchObject({ attempt: 1, kind: 'preempted', left: [] });
    const key = last?.generations[0]?.members[0]?.key ?? '';
    expect(stored(key)).toBe(fs.readFileSync(`${node.work}/last`, 'utf8'));
  });

  it('ends by itself when the task has ended, so that the pod completes', async () => {
    const specs = containersOf('second-container.yaml');
    expect(await capture(specs['restore']).status).toBe(0);
    const sidecar = capture(specs['capture']);
    const run = task(specs['task']);
    expect(await run.status, run.output()).toBe(0);
    expect(await sidecar.status, sidecar.output()).toBe(0);
    expect(records().at(-1)).toMatchObject({ kind: 'done', left: [] });
  });

  it('fails the pod when something cannot be stored', async () => {
    const specs = containersOf('second-container.yaml');
    expect(await capture(specs['restore']).status).toBe(0);
    const sidecar = capture(specs['capture']);
    // Nobody but the task's own user may read it.
    const run = node.run({
      uid: TASK,
      command: [
        'sh',
        '-c',
        'umask 077; echo secret >frame.1.dat; umask 022; echo 0 >status.new; mv status.new status',
      ],
    });
    expect(await run.status).toBe(0);
    expect(await sidecar.status, sidecar.output()).toBe(74);
    expect(sidecar.output()).toContain('frame.1.dat (permission denied');
  });
});

describe('process 1 of a container', () => {
  it('is capture: it passes SIGTERM on, takes in orphans and ends with the status of the task', async () => {
    const script =
      'for i in 1 2 3; do (sleep 0.1 & ) ; done; trap "exit 9" TERM; sleep 0.5; touch up; while :; do sleep 0.05; done';
    const options = ['-r', 'none.dat', '--to', `file://${node.store}`, '--grace', '10s'];
    const run = node.run({ uid: TASK, command: [node.capture, ...options, '--', 'sh', '-c', script] });
    await until(() => fs.existsSync(`${node.work}/up`), `the task: ${run.output()}`);
    await until(() => run.zombies() === 0, 'no zombie');
    await run.signal('SIGTERM');
    expect(await run.status, run.output()).toBe(75);
  });

  it('is a restore: SIGTERM ends it', async () => {
    const silent = net.createServer((socket) => socket.on('error', () => undefined));
    const asked = once(silent, 'connection') as Promise<[net.Socket]>;
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    try {
      const run = node.run({
        uid: SIDECAR,
        command: [node.capture, 'restore', '-k', 'k.chk', '--to', 's3://bucket/x', '--path-style'],
        env: {
          AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${(silent.address() as net.AddressInfo).port}`,
          AWS_REGION: 'eu-west-1',
          AWS_ACCESS_KEY_ID: 'id',
          AWS_SECRET_ACCESS_KEY: 'key',
        },
      });
      const [socket] = await asked;
      await run.signal('SIGTERM');
      expect(await run.status, run.output()).toBe(143);
      socket.destroy();
    } finally {
      silent.close();
    }
  });
});

describe('a root file system that cannot be written', () => {
  it('is no hindrance, and without a place for temporary files the user reads what to mount', async () => {
    const specs = containersOf('second-container.yaml');
    const args = specs['capture']?.args ?? [];
    const options = args.filter((word, at) => word !== '--control' && args[at - 1] !== '--control');
    // No restore has brought it.
    fs.writeFileSync(`${node.work}/in.dat`, 'input\n', { mode: 0o644 });
    const sidecar = node.run({ uid: SIDECAR, command: [node.capture, ...options], env: ENV, noTmp: true });
    await until(() => sidecar.output().includes('task sim'), `the watch: ${sidecar.output()}`);
    const run = task(specs['task']);
    expect(await run.status, run.output()).toBe(0);
    expect(await sidecar.status, sidecar.output()).toBe(0);
    expect(sidecar.output()).toMatch(/warning: cannot write in \/tmp: EROFS/);
    expect(sidecar.output()).toContain('--spool');
    expect(records().at(-1)).toMatchObject({ kind: 'done', left: [] });
  });
});
