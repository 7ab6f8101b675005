// docs/metrics.md and the dashboard speak of the numbers that there are, and of all of them.
import fs from 'node:fs';
import { expect, it } from 'vitest';
import { openMetrics } from '../../src/metrics/metrics.ts';
import { testDir } from '../support/work-dir.ts';
import { expectOutputOf } from './expected.ts';

const ROOT = new URL('../../', import.meta.url);
const textOf = (path: string): string => fs.readFileSync(new URL(path, ROOT), 'utf8');
const EXPECTED = textOf('examples/metrics/expected.txt');
const namesIn = (text: string): readonly string[] =>
  [...new Set(text.match(/\bcapture_[a-z_]+[a-z]\b(?!\*)/g))].toSorted();

async function written(): Promise<string> {
  const dir = testDir();
  const none = { files: 0, bytes: 0, failures: 0 };
  const metrics = await openMetrics({
    place: { kind: 'file', path: `${dir.path}/x.prom` },
    labels: { task: 'lmp', index: '0', attempt: '1' },
    numbers: () => ({
      lagMs: 0,
      waitingFiles: 0,
      waitingBytes: 0,
      pushed: { result: none, checkpoint: none },
      checkpoints: 0,
      newestCheckpointAtMs: 0,
      outage: false,
      used: { capture: { cpuS: 0, peakMemoryBytes: 0 } },
      now: {},
    }),
  });
  const text = dir.read('x.prom');
  await metrics.close();
  dir.remove();
  return text;
}

const names = async (): Promise<readonly string[]> =>
  namesIn((await written()).replaceAll(/^(?!# TYPE).*$/gm, ''));

it('the numbers begin as examples/metrics/expected.txt says', async () => {
  expect(EXPECTED).toMatch(/^# HELP /);
  const lines = (await written()).split('\n');
  expectOutputOf('metrics', lines.slice(0, EXPECTED.trimEnd().split('\n').length).join('\n'));
});

it.each(['examples/metrics/dashboard.json', 'docs/metrics.md'])(
  '%s names each number, and no other',
  async (file) => {
    expect(namesIn(textOf(file).replaceAll('capture_stored_*', ''))).toEqual(await names());
  },
);

it('each panel of the dashboard has a place of its own and asks for the chosen tasks', () => {
  const { panels } = JSON.parse(textOf('examples/metrics/dashboard.json')) as {
    panels: { id: number; gridPos: { x: number; y: number }; targets: { expr: string }[] }[];
  };
  expect(new Set(panels.map(({ gridPos: { x, y } }) => `${x},${y}`)).size).toBe(panels.length);
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const { expr } of panels.flatMap(({ targets }) => targets))
    expect(expr.match(/capture_\w+/g)).toHaveLength(expr.split('{task=~"$task",index=~"$index"}').length - 1);
});
