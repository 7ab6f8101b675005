// The numbers as a scraper reads them: over a real connection, and in a real file.
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openMetrics } from '../../src/metrics/metrics.ts';
import type { LiveNumbers, Metrics } from '../../src/metrics/numbers.ts';
import type { MetricsPlace } from '../../src/model/format/settings.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const NUMBERS: LiveNumbers = {
  lagMs: 2500,
  waitingFiles: 3,
  waitingBytes: 4096,
  pushed: {
    result: { files: 7, bytes: 700, failures: 1 },
    checkpoint: { files: 2, bytes: 20, failures: 0 },
  },
  checkpoints: 2,
  newestCheckpointAtMs: 1_790_000_000_500,
  outage: false,
  used: {
    task: { cpuS: 12.5, peakMemoryBytes: 2 ** 30, readBytes: 5, writtenBytes: 6 },
    capture: { cpuS: 0.5, peakMemoryBytes: 2 ** 26 },
    job: { peakMemoryBytes: 2 ** 30, limitBytes: 2 ** 31 },
  },
  now: { taskMemory: 2 ** 29, captureMemory: 2 ** 25, jobMemory: 2 ** 28, space: 1000 },
};
const LABELS = { task: 'lmp', index: '3', attempt: '2' };
const ALL = 'task="lmp",index="3",attempt="2"';

let dir: TestDir;
let numbers: LiveNumbers;
beforeEach(() => {
  dir = testDir();
  numbers = NUMBERS;
});
afterEach(() => dir.remove());

async function open(place: MetricsPlace): Promise<Metrics> {
  const metrics = await openMetrics({ place, labels: LABELS, numbers: () => numbers });
  onTestFinished(() => metrics.close());
  return metrics;
}

const LOOPBACK = { kind: 'listen', host: '127.0.0.1', port: 0 } as const;

it('the page lists each number with its type, and no other', async () => {
  const { where } = await open(LOOPBACK);
  const types = [...(await (await fetch(where)).text()).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  const page = fs.readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
  const listed = [...page.matchAll(/^\| (`capture_[^|]*) \| (\w+) \|/gm)].flatMap(([, names = '', type]) =>
    [...names.matchAll(/\w+/g)].map(([name]) => `${name} ${type}`),
  );
  expect(listed.toSorted()).toEqual(types.map(([, name, type]) => `${name} ${type}`).toSorted());
});

describe('on a port', () => {
  it('each number is a line with task, index and attempt', async () => {
    const { where } = await open(LOOPBACK);
    const answer = await fetch(where);
    expect(answer.headers.get('content-type')).toContain('text/plain; version=0.0.4');
    const lines = (await answer.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    expect(lines).toEqual([
      `capture_lag_seconds{${ALL}} 2.5`,
      `capture_waiting_files{${ALL}} 3`,
      `capture_waiting_bytes{${ALL}} 4096`,
      `capture_newest_checkpoint_timestamp_seconds{${ALL}} 1790000000.5`,
      `capture_store_outage{${ALL}} 0`,
      `capture_task_memory_bytes{${ALL}} 536870912`,
      `capture_task_peak_memory_bytes{${ALL}} 1073741824`,
      `capture_job_memory_bytes{${ALL}} 268435456`,
      `capture_job_memory_limit_bytes{${ALL}} 2147483648`,
      `capture_own_memory_bytes{${ALL}} 33554432`,
      `capture_work_space_used_bytes{${ALL}} 1000`,
      `capture_checkpoints_total{${ALL}} 2`,
      `capture_task_cpu_seconds_total{${ALL}} 12.5`,
      `capture_task_read_bytes_total{${ALL}} 5`,
      `capture_task_written_bytes_total{${ALL}} 6`,
      `capture_own_cpu_seconds_total{${ALL}} 0.5`,
      ...['stored_files_total 7 2', 'stored_bytes_total 700 20', 'failures_total 1 0'].flatMap((text) => {
        const [name, result, checkpoint] = text.split(' ');
        return [
          `capture_${name}{role="result",${ALL}} ${result}`,
          `capture_${name}{role="checkpoint",${ALL}} ${checkpoint}`,
        ];
      }),
    ]);
  });

  it('they are those of the moment, and what is not known has no line', async () => {
    const { where } = await open(LOOPBACK);
    await (await fetch(where)).text();
    numbers = {
      ...NUMBERS,
      lagMs: 0,
      newestCheckpointAtMs: undefined,
      used: { capture: NUMBERS.used.capture },
      now: {},
    };
    const text = await (await fetch(where)).text();
    expect(text).toContain(`capture_lag_seconds{${ALL}} 0\n`);
    for (const gone of ['newest_checkpoint', 'task_memory', 'task_cpu', 'job_memory_limit', 'work_space'])
      expect(text).not.toMatch(new RegExp(`^capture_${gone}`, 'm'));
  });

  it('nothing else is answered, and nothing but GET', async () => {
    const { where } = await open(LOOPBACK);
    expect((await fetch(where.replace('/metrics', '/etc/passwd'))).status).toBe(404);
    expect((await fetch(where, { method: 'POST', body: 'x' })).status).toBe(405);
    expect((await fetch(`${where}?a=b`)).status).toBe(200);
  });

  it('that is in use is refused', async () => {
    const first = await open(LOOPBACK);
    const port = Number(new URL(first.where).port);
    await expect(open({ ...LOOPBACK, port })).rejects.toThrow(/EADDRINUSE/);
  });

  it('nobody listens any more when it is closed, also while somebody is still asking', async () => {
    const { where, close } = await open(LOOPBACK);
    const asking = net.connect(Number(new URL(where).port), '127.0.0.1');
    asking.on('error', () => undefined);
    asking.write('GET /metrics HTTP/1.1\r\n');
    // The half request is with the server when an answer to a later one is here.
    await (await fetch(where)).text();
    await close();
    await once(asking, 'close');
    await expect(fetch(where)).rejects.toThrow('fetch failed');
  });
});

describe('in a file', () => {
  it('they are written whole, again at each look, and are gone at the end', async () => {
    const file = path.join(dir.path, 'capture.prom');
    const { look, close } = await open({ kind: 'file', path: file });
    expect(dir.read('capture.prom')).toContain(`capture_lag_seconds{${ALL}} 2.5\n`);
    const before = fs.openSync(file, 'r');
    numbers = { ...NUMBERS, lagMs: 7000 };
    await look();
    expect(dir.read('capture.prom')).toContain(`capture_lag_seconds{${ALL}} 7\n`);
    // Another file: whoever reads the one before reads all of it.
    expect(fs.readFileSync(before, 'utf8')).toContain(`capture_lag_seconds{${ALL}} 2.5\n`);
    fs.closeSync(before);
    expect(dir.names('.')).toEqual(['capture.prom']);
    await close();
    expect(dir.names('.')).toEqual([]);
  });

  it('that cannot be written is refused, and leaves nothing', async () => {
    await expect(open({ kind: 'file', path: path.join(dir.path, 'none/x.prom') })).rejects.toThrow(/ENOENT/);
    fs.mkdirSync(path.join(dir.path, 'x.prom'));
    await expect(open({ kind: 'file', path: path.join(dir.path, 'x.prom') })).rejects.toThrow(/EISDIR/);
    expect(dir.names('.')).toEqual(['x.prom']);
  });
});
