// What `capture queue status` shows of a moment.
import { expect, it } from 'vitest';
import { RateOf } from '../../../src/many/queue/rate.ts';
import { look, type QueueView } from '../../../src/many/queue/look.ts';
import { linesOf } from '../../../src/many/queue/status.ts';
import type { SeenSubmission } from '../../../src/model/many/choose.ts';
import { seen } from '../submissions.ts';

const view = ({ all = [], ...changes }: Partial<QueueView> = {}): QueueView => ({
  nowMs: 61_000,
  all,
  shown: all,
  isOne: false,
  unreadable: [],
  workers: [],
  unable: [],
  running: [],
  lost: [],
  failed: [],
  ...changes,
});
const how = { rates: new Map<string, RateOf>(), width: 200 };

it('shows each submission, what is done, how fast it goes, and until when', () => {
  const rate = new RateOf(1000, 10);
  rate.add(61_000, 5);
  const melt = seen({}, { waiting: 3, running: 1, failed: 1 });
  const after = seen({ name: 'solve', after: ['melt'], capabilities: ['gpu'] }, { waiting: 10 });
  const lines = linesOf(view({ all: [melt, after] }), { ...how, rates: new Map([['melt', rate]]) });
  expect(lines[1]).toMatch(/^melt +running +3 +1 +1 +5 +5\.0 +48\.0 s/);
  expect(lines[2]).toMatch(/^solve +after melt +10 +0 +0 +0 +gpu$/);
});

it('says who works, and which capabilities no worker has', () => {
  const mesh = seen({ name: 'mesh', capabilities: ['openfoam'] }, { waiting: 1 });
  const workers = [{ name: 'node3.47', capabilities: ['gpu'] }];
  const running = [{ submission: 'melt', index: 3, worker: 'node3.47', sinceMs: 1000 }];
  const text = linesOf(view({ all: [mesh], workers, running }), how).join('\n');
  expect(text).toContain('  node3.47: 1 running, has gpu');
  expect(text).toContain('no worker has openfoam: mesh cannot begin');
  // That is no matter of the others.
  const melt = seen({}, { waiting: 1 });
  const other = linesOf(view({ all: [mesh, melt], shown: [melt], workers, running }), how).join('\n');
  expect(other).not.toContain('openfoam');
  expect(other).not.toContain('NEEDS');
});

it('says why workers that are here take nothing of a submission', () => {
  const unable = [
    { submission: 'mesh', worker: 'node3.47', why: '--prepare ended with exit status 2' },
    { submission: 'melt', worker: 'node3.47', why: 'it needs 8 cores' },
    { submission: 'mesh', worker: 'node4.11', why: '--prepare ended with exit status 2' },
  ];
  const text = linesOf(view({ unable }), how).join('\n');
  expect(text).toContain('mesh cannot begin on node3.47, node4.11: --prepare ended with exit status 2\n');
  expect(text).toContain('melt cannot begin on node3.47: it needs 8 cores');
});

it.each([
  [
    seen({ cancelledMs: 1 }),
    'solve waits for mesh, which is cancelled: submit it again with --again --name mesh',
  ],
  [seen({}, { failed: 1 }), 'solve waits for mesh, which has failed: capture queue retry mesh'],
  [undefined, 'solve waits for mesh, which is not in the queue: submit it again with --again --name mesh'],
  [seen({}, { running: 1 }), undefined],
])('says why a submission waits for ever', (awaited, text) => {
  const mesh = awaited && { ...awaited, submission: { ...awaited.submission, name: 'mesh' } };
  const solve = seen({ name: 'solve', after: ['mesh'] }, { waiting: 1 });
  const lines = linesOf(view({ all: mesh === undefined ? [solve] : [mesh, solve] }), how);
  expect(lines.filter((line) => line.includes('waits for'))).toEqual(text === undefined ? [] : [text]);
});

it('counts as waiting what was lost with its worker, and says when it runs again', async () => {
  const job = (submission: string, index: number, worker: string) => ({
    submission,
    index,
    worker,
    sinceMs: 1,
  });
  const jobs = [job('melt', 9, 'node3.47'), job('melt', 10, 'node3.47'), job('melt', 4, 'node4.11')];
  const looks = async (...names: readonly string[]): Promise<string> => {
    const showable = {
      place: 'lab',
      list: async () => [
        { kind: 'submission', ...seen({}, { running: 3 }) } as const,
        { kind: 'submission', ...seen({ name: 'gone', cancelledMs: 1 }, { running: 1 }) } as const,
      ],
      running: async (name: string) => (name === 'melt' ? jobs : [job('gone', 1, 'node3.47')]),
      workers: async () => names.map((name) => ({ name, capabilities: [] })),
      failed: async () => [],
      unable: async () => [],
    };
    return linesOf(await look(showable, 'melt'), how).join('\n');
  };
  const none = await looks();
  expect(none).toMatch(/^melt +waiting +3 +0 +0 +7$/m);
  expect(none).toContain(
    'no worker is here\nmelt 9-10 lost with node3.47: runs again when a worker is here\n',
  );
  expect(none).not.toContain('running:');
  const one = await looks('node4.11');
  expect(one).toMatch(/^melt +running +2 +1 +0 +7$/m);
  expect(one).toContain(
    'melt 9-10 lost with node3.47: runs again on another worker\nrunning:\n  4 on node4.11',
  );
  expect(one).not.toContain('gone');
});

it('counts what a cancellation has dropped, and what was done before it', () => {
  const lines = linesOf(view({ all: [seen({ cancelledMs: 1, dropped: 7, doneBefore: 2 })] }), how);
  expect(lines[1]).toMatch(/^melt +cancelled, 7 dropped +0 +0 +0 +2$/);
});

it('says what it cannot know', () => {
  expect(linesOf(view({ workers: undefined }), how).join('\n')).toContain('the server does not tell');
  const unreadable = [{ name: 'old', why: 'its format is 2, and this capture reads 1' }];
  expect(linesOf(view({ all: [seen()], unreadable }), how).join('\n')).toContain(
    'old: cannot be read: its format',
  );
});

it('of one submission also shows what runs where, and why tasks have failed', () => {
  const failed = [
    {
      submission: 'melt',
      index: 4,
      reason: 'failed with exit status 3\nno disk',
      atMs: 1,
      worker: 'node3.47',
    },
  ];
  const running = [{ submission: 'melt', index: 3, worker: 'node3.47', sinceMs: 1000 }];
  const all = [seen({}, { failed: 2, running: 1 })];
  const text = linesOf(view({ all, failed, running, isOne: true }), how).join('\n');
  expect(text).toContain('running:\n  3 on node3.47 for 1 min\n');
  expect(text).toContain('failed:\n  4 on node3.47: failed with exit status 3\n      no disk\n  and 1 more');
});

it('of one submission still knows the others: whether what it waits for is over, and what else its workers run', () => {
  const mesh = seen({ name: 'mesh', overMs: 1 });
  const solve = seen({ name: 'solve', after: ['mesh'] }, { waiting: 10 });
  const workers = [{ name: 'node3.47', capabilities: [] }];
  const running = [{ submission: 'other', index: 3, worker: 'node3.47', sinceMs: 1000 }];
  const one = view({ all: [mesh, solve], shown: [solve], isOne: true, workers, running });
  const lines = linesOf(one, how);
  expect(lines[1]).toMatch(/^solve +waiting +10 /);
  expect(lines.slice(2)).toEqual(['1 worker:', '  node3.47: 1 running']);
});

it('says no rate of what has ended', () => {
  const rate = new RateOf(1000, 10);
  rate.add(61_000, 2);
  const lines = linesOf(view({ all: [seen({}, { failed: 2 })] }), {
    ...how,
    rates: new Map([['melt', rate]]),
  });
  expect(lines[1]).toMatch(/^melt +failed +0 +0 +2 +8$/);
});

it('does not take for done what was cancelled, nor say when all will be done while nothing runs', () => {
  const rate = new RateOf(1000, 10);
  rate.add(61_000, 5);
  const rates = new Map([['melt', rate]]);
  const lineOf = (one: SeenSubmission): string | undefined =>
    linesOf(view({ all: [one] }), { ...how, rates })[1];
  expect(lineOf(seen({ cancelledMs: 1 }))).toMatch(/^melt +cancelled +0 +0 +0$/);
  expect(lineOf(seen({ cancelledMs: 1 }, { running: 1 }))).toMatch(/^melt +cancelled +0 +1 +0$/);
  expect(lineOf(seen({}, { waiting: 5 }))).toMatch(/^melt +waiting +5 +0 +0 +5 +5\.0$/);
  expect(lineOf(seen({}, { waiting: 4, running: 1 }))).toMatch(
    /^melt +running +4 +1 +0 +5 +5\.0 +1 min 0 s$/,
  );
});
