// `capture report` as a user calls it, over stores that attempts have left; what is in the page is read as a browser
// would read it. How it looks and behaves there: test/real/report.test.ts.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { IndexEntry, Report, ReportHead } from '../../../src/array/report/data.ts';
import { showPath } from '../../../src/model/path.ts';
import { killTree, openPlace, program, until } from '../../e2e/support.ts';
import { run, start } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';
import { fillArray } from './array-of.ts';

let dir: string;
let stored: StoreOfRecords;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-report-'));
});
afterEach(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

const scriptsOf = (html: string): readonly string[] =>
  [...html.matchAll(/<script[^>]*>(.*?)<\/script/gs)].map(([, text = '']) => text);

/** The data as the page takes them. */
function reportOf(html: string): Report {
  const [entries = '', head = ''] = scriptsOf(html);
  const text = gunzipSync(Buffer.from(entries, 'base64')).toString();
  return { entries: JSON.parse(text) as IndexEntry[], head: JSON.parse(head) as ReportHead };
}

const pageOf = (file = path.join(dir, 'report.html')): string => fs.readFileSync(file, 'utf8');

const HOUR_MS = 3_600_000;
const file = (name: string, ending: string, size: number, storedSize: number): object => ({
  path: name,
  key: `${name}.${ending}.zst`,
  push: 'p',
  attempt: 1,
  md5: 'd41d8cd98f00b204e9800998ecf8427e',
  size,
  storedSize,
  compressed: true,
  mtimeNs: '0',
  mode: 0o644,
});
const iso = (ms: number): string => new Date(ms).toISOString();

/** What killed attempts leave: a checkpoint that was resumed from, a damaged record, one that only began. */
function fillKilled(store: StoreOfRecords, nowMs: number): void {
  const at = (hours: number): number => nowMs - hours * HOUR_MS;
  const generation = {
    attempt: 1,
    generation: 2,
    at: iso(at(9.5)),
    members: [file('k.chk', 't.3.1-2', 4096, 1024)],
    companions: [],
  };
  const index = '3';
  const first = { index, attempt: 1, startedAt: iso(at(10)), host: 'node1' };
  store.record({ ...first, seq: 0, kind: 'started', at: iso(at(10)) }, at(10));
  store.record(
    { ...first, seq: 4, kind: 'checkpoint', at: iso(at(9)), generations: [generation] } as never,
    at(9),
  );
  const second = { index, attempt: 2, startedAt: iso(at(8)), host: 'node2' };
  store.record({ ...second, seq: 0, kind: 'started', at: iso(at(8)) }, at(8));
  store.put('.capture/t/3/0002-000003.stored.json', '{"damaged', at(8));
  const third = { index, attempt: 3, startedAt: iso(at(7)), host: 'node3', restored: '1-2' };
  const end = { signal: 'SIGKILL', status: 137, why: 'disk full' };
  store.record(
    {
      ...third,
      seq: 5,
      kind: 'failed',
      status: 137,
      at: iso(at(6)),
      end,
      generations: [generation],
      results: [file('r.dat', '3', 3000, 1000)],
      left: [{ path: 'late.dat', why: 'no room' }],
    } as never,
    at(6),
  );
  store.record(
    { index: '4', attempt: 1, seq: 0, kind: 'started', at: iso(at(5)), startedAt: iso(at(5)) },
    at(5),
  );
}

describe.each(STORE_KINDS)('capture report of %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
  });

  it('writes what killed attempts have left: what was kept, what was lost, and why', async () => {
    fillKilled(stored, Date.now());
    const out = path.join(dir, 'report.html');
    const ran = await run('report', stored, '--array', '3-5', '-o', out);
    expect(ran).toMatchObject({ status: 0, stdout: '' });
    expect(ran.stderr).toMatch(/record \S*0002-000003\.stored\.json cannot be used/);
    expect(ran.stderr).toMatch(/wrote \S+report\.html: 3 indices, [\d.]+ KiB/);
    const { entries, head } = reportOf(pageOf());
    expect(head).toMatchObject({ format: 1, store: stored.url, task: 't' });
    const [killed, begun, missing] = entries;
    expect(killed).toMatchObject({
      index: '3',
      state: 'failed',
      status: 137,
      why: 'disk full',
      attempts: [
        { attempt: 1, ran: 3600, kept: 1800, end: 'killed' },
        { attempt: 2, ran: 0, kept: 0, end: 'killed' },
        { attempt: 3, ran: 3600, kept: 0, end: 'failed', restored: '1-2' },
      ],
      results: 1,
      bytes: 3000,
      storedBytes: 2024,
      left: ['late.dat: no room'],
    });
    expect(killed?.attempts.map(({ how, host }) => `${head.texts[host]} ${head.texts[how]}`)).toEqual([
      'node1 no last record: killed or taken over',
      'node2 no last record: killed or taken over; its newest record is damaged',
      'node3 failed: the task was ended by SIGKILL; capture exited 137',
    ]);
    expect(begun).toMatchObject({ index: '4', state: 'stale', attempts: [{ attempt: 1, end: 'killed' }] });
    expect(missing).toEqual({ index: '5', state: 'missing', attempts: [] });
  });

  it('has the CPU time of short tasks, and none where it is not known', async () => {
    const used = { from: iso(0), stepS: 10, series: {}, capture: { cpuS: 1, peakMemoryBytes: 1 } };
    const done = (index: string, task: object, attempt = 1): void => {
      const resources = { ...used, ...task };
      stored.record({ index, attempt, seq: 1, kind: 'done', resources } as never);
    };
    const task = (cpuS: number): object => ({ task: { cpuS, peakMemoryBytes: 1 } });
    done('0', task(0.3125));
    done('1', task(0));
    done('2', {});
    done('3', task(0.2), 1);
    done('3', task(0.2), 2);
    await run('report', stored, '-o', path.join(dir, 'report.html'));
    expect(reportOf(pageOf()).entries.map(({ cpu }) => cpu)).toEqual([0.313, undefined, undefined, 0.4]);
  });

  it('has each time to the millisecond: only the page rounds, and everywhere alike', async () => {
    const at = (ms: number): string => iso(Date.parse('2026-11-22T12:00:00.900Z') + ms);
    const generation = { attempt: 1, generation: 1, at: at(4100), members: [], companions: [] };
    const resources = {
      from: at(55),
      stepS: 10,
      series: { space: { unit: 1, mean: [1], max: [1] } },
      capture: { cpuS: 1, peakMemoryBytes: 1 },
    };
    const given = { index: '0', attempt: 1, seq: 3, startedAt: at(0), generations: [generation], resources };
    stored.record({ ...given, kind: 'failed', status: 1, at: at(9200) } as never);
    await run('report', stored, '-o', path.join(dir, 'report.html'));
    const [entry] = reportOf(pageOf()).entries;
    const from = Date.parse(at(0)) / 1000;
    const used = { from: Date.parse(at(55)) / 1000, step: 10, lines: { space: { unit: 1, values: [1] } } };
    expect(entry?.attempts).toMatchObject([{ from, ran: 9.2, kept: 4.1, used }]);
    expect(entry?.checkpoint).toBe(Date.parse(at(4100)) / 1000);
  });

  it('counts an attempt as done whose last record is damaged: its name says that', async () => {
    const nowMs = Date.now();
    const [startedAt, at] = [iso(nowMs - 2 * HOUR_MS), iso(nowMs - HOUR_MS)];
    stored.record({ index: '6', attempt: 1, seq: 2, kind: 'checkpoint', startedAt, at });
    stored.put('.capture/t/6/0001-000003.done.json', '{"damaged');
    const ran = await run('report', stored, '-o', path.join(dir, 'report.html'));
    expect(ran.stderr).toMatch(/record \S*0001-000003\.done\.json cannot be used/);
    const { entries, head } = reportOf(pageOf());
    expect(entries[0]).toMatchObject({ state: 'done', attempts: [{ end: 'done', ran: 3600, kept: 3600 }] });
    expect(head.texts).toContain('done; its newest record is damaged');
  });

  it('reads each attempt with one request', async () => {
    fillArray(stored, { indices: 100, nowMs: Date.now() });
    expect(await run('report', stored, '-o', path.join(dir, 'report.html'))).toMatchObject({ status: 0 });
    const { entries } = reportOf(pageOf());
    const attempts = entries.map((entry) => entry.attempts.length);
    expect(attempts.filter((count) => count > 1).length).toBeGreaterThan(5);
    expect(entries[0]).toMatchObject({ state: 'done', attempts: [{ used: { lines: { taskMemory: {} } } }] });
    if (stored.server === undefined) return;
    const operations = stored.server.served.map(({ operation }) => operation);
    expect(operations.filter((one) => one === 'GetObject')).toHaveLength(
      attempts.reduce((sum, count) => sum + count, 0),
    );
    const asked = entries.filter(({ state }) => state === 'failed' || state === 'stale').length;
    // The task's name, the survey, and the output of those that a person asks about.
    expect(operations.filter((one) => one === 'ListObjectsV2')).toHaveLength(2 + asked);
  });

  it('has the last lines of what failed, safe to show, and of nothing else', async () => {
    const started = { attempt: 1, seq: 0, kind: 'started' } as const;
    for (const index of ['0', '1']) stored.record({ index, ...started });
    stored.record({ index: '0', attempt: 1, seq: 1, kind: 'done' });
    stored.record({ index: '1', attempt: 1, seq: 1, kind: 'failed', status: 3 });
    const lines = Array.from({ length: 25 }, (_, n) => `line ${n}`);
    for (const index of ['0', '1'])
      stored.put(`.capture/~output/t/${index}/0001.output.000000000100`, `${lines.join('\n')}\n\x1b[2J<b>\n`);
    expect(await run('report', stored, '-o', path.join(dir, 'report.html'))).toMatchObject({ status: 0 });
    const { entries } = reportOf(pageOf());
    expect(entries.map(({ said }) => said)).toEqual([
      undefined,
      [{ stream: 'stdout and stderr', lines: [...lines.slice(6), '\\x1b[2J<b>'] }],
    ]);
  });

  it('writes to stdout alone on request', async () => {
    fillKilled(stored, Date.now());
    const ran = await run('report', stored, '--array', '3', '-o', '-');
    expect(ran.status).toBe(0);
    expect(reportOf(ran.stdout).entries.map(({ index }) => index)).toEqual(['3']);
    expect(ran.stderr).toContain('not of --array, and not counted: 4');
    expect(ran.stderr).not.toContain('wrote');
    expect(fs.readdirSync(dir)).toEqual([]);
  });
});

describe('a page', () => {
  beforeEach(async () => {
    stored = await openStoreOfRecords('a directory');
  });

  const HOSTILE = '</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> \u2028\u202e"\\';

  it('keeps names that look like HTML as data', async () => {
    const common = { index: '0', attempt: 1, host: HOSTILE } as const;
    store({ ...common, seq: 3, kind: 'failed', status: 1, end: { status: 1, reason: HOSTILE } });
    store({
      index: '1',
      attempt: 1,
      seq: 3,
      kind: 'done',
      host: HOSTILE,
      left: [{ path: HOSTILE, why: HOSTILE }],
    });
    expect(await run('report', stored, '-o', path.join(dir, 'report.html'))).toMatchObject({ status: 0 });
    const html = pageOf();
    expect(html).not.toContain('alert(1)</script');
    expect(html).not.toContain('<img');
    expect(html.match(/<script/g)).toHaveLength(3);
    expect(html.match(/<\/script/g)).toHaveLength(3);
    const { entries, head } = reportOf(html);
    const shown = showPath(HOSTILE);
    expect(head.texts).toContain(shown);
    expect(entries[1]?.left).toEqual([`${shown}: ${shown}`]);
  });

  const store = (given: object): void => stored.record(given as never);

  it('allows its own script and style, and no network', async () => {
    store({ index: '0', attempt: 1, seq: 3, kind: 'done' });
    await run('report', stored, '-o', path.join(dir, 'report.html'));
    const html = pageOf();
    const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(html) ?? [];
    const hash = (text = ''): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    const [, style] = /<style>(.*?)<\/style>/s.exec(html) ?? [];
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `style-src ${hash(style)}`,
      `script-src ${hash(scriptsOf(html)[2])}`,
      "base-uri 'none'",
      "form-action 'none'",
    ]);
    // Nothing that a browser would fetch, and the license of what is inside.
    expect(html).not.toMatch(/<(link|img|iframe|object|embed)\b|\ssrc=|@import|url\(/);
    expect(html).toMatch(/\/\*! uPlot\nThe MIT License \(MIT\)[^*]*THE SOFTWARE IS PROVIDED/);
  });

  it('is a file of the program of its own: the other commands do not grow by its library', () => {
    const texts = new Map(
      fs
        .readdirSync('dist')
        .filter((name) => /\.[cm]js$/.test(name))
        .map((name) => [name, fs.readFileSync(`dist/${name}`, 'utf8')]),
    );
    const [page = '', ...others] = [...texts].flatMap(([name, text]) =>
      text.includes('uPlot') ? [name] : [],
    );
    expect(others).toEqual([]);
    const users = [...texts.values()].filter((text) => text.includes(`./${page}`));
    expect(users).toHaveLength(1);
    expect(users[0]?.replace(`await import("./${page}")`, '')).not.toContain(`./${page}`);
  });

  it('holds a bounded number of attempts of an index, and counts those before', async () => {
    for (let attempt = 1; attempt <= 250; attempt += 1)
      store({ index: '0', attempt, seq: 3, kind: 'preempted' });
    await run('report', stored, '-o', path.join(dir, 'report.html'));
    const [entry] = reportOf(pageOf()).entries;
    expect(entry?.attempts).toHaveLength(200);
    expect(entry?.earlier).toEqual({ attempts: 50, ran: 50 * 3600, kept: 0 });
  });
});

describe('the file of a report', () => {
  beforeEach(async () => {
    stored = await openStoreOfRecords('an S3 server');
    fillArray(stored, { indices: 40, nowMs: Date.now() });
  });

  it('stays as it was, and nothing else is left, if the report is stopped', async () => {
    const out = path.join(dir, 'report.html');
    fs.writeFileSync(out, 'the one before');
    if (stored.server === undefined) throw new Error('no server');
    const child = start('report', stored, ['-o', out]);
    stored.server.fault = ({ operation, nth }) => {
      if (operation === 'GetObject' && nth === 5) child.kill('SIGTERM');
      return undefined;
    };
    const status = await new Promise((resolve) => child.once('close', resolve));
    expect(status).toBe(143);
    expect(fs.readdirSync(dir)).toEqual(['report.html']);
    expect(fs.readFileSync(out, 'utf8')).toBe('the one before');
  });

  it('is replaced at once', async () => {
    const out = path.join(dir, 'page.html');
    fs.writeFileSync(out, 'the one before');
    expect(await run('report', stored, '-o', out)).toMatchObject({ status: 0 });
    expect(fs.readdirSync(dir)).toEqual(['page.html']);
    expect(reportOf(pageOf(out)).entries).toHaveLength(39);
  });

  it('is refused where it cannot be, before anything is read', async () => {
    for (const out of [dir, path.join(dir, 'none/report.html')]) {
      const ran = await run('report', stored, '-o', out);
      expect(ran).toMatchObject({
        status: 64,
        stderr: expect.stringContaining(`cannot write ${out}`) as string,
      });
      expect(stored.server?.served.map(({ operation }) => operation)).not.toContain('GetObject');
    }
    expect(fs.readdirSync(dir)).toEqual([]);
  });
});

it('tells how attempts ended that were really killed and preempted, and where each went on', async () => {
  stored = await openStoreOfRecords('a directory');
  const place = openPlace({ below: '/dev/shm' });
  try {
    const attempt = async (end: (pid: number) => void): Promise<void> => {
      const before = checkpoints();
      const task = [process.execPath, program('rewrite-in-turn.mjs')];
      const one = place.run(['-k', 'a.chk', '-k', 'b.chk', '--checkpoint-settle', '1h'], task);
      await one.says(/from \d+ \d+/);
      await until(() => checkpoints() > before, 'a checkpoint of this attempt');
      end(one.pid);
      await one.status;
      place.freshWork();
    };
    const checkpoints = (): number =>
      place.records().filter(({ name }) => name.endsWith('.checkpoint')).length;
    await attempt(killTree);
    await attempt((pid) => process.kill(pid, 'SIGTERM'));
    const ran = place.capture(['report', place.store, '-o', '-']);
    expect(await ran.status).toBe(0);
    const [entry] = reportOf(ran.stdout()).entries;
    expect(entry).toMatchObject({ state: 'preempted', checkpoint: expect.any(Number) as number });
    const [first, second] = entry?.attempts ?? [];
    expect(first).toMatchObject({ attempt: 1, end: 'killed' });
    expect(second).toMatchObject({
      attempt: 2,
      end: 'preempted',
      restored: expect.stringMatching(/^1-\d+$/) as string,
    });
    for (const { from, ran: lasted, kept } of entry?.attempts ?? []) {
      expect(kept).toBeLessThanOrEqual(lasted);
      expect(from + lasted).toBeLessThanOrEqual(Date.now() / 1000 + 1);
    }
  } finally {
    place.close();
  }
});
