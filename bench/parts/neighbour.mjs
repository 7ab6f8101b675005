// What one task of `capture array` suffers from another under the same sidecar: it closes a small result every half
// second, alone at first, then beside one that closes, or writes, as much as it can.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { MiB } from '../lib/content.mjs';
import { quantile } from '../lib/figures.mjs';
import { commandOf, killTree, pssMiB, tree } from '../lib/processes.mjs';
import { clockMs, freshDir } from '../lib/running.mjs';
import { BUCKET, envOf } from '../lib/server.mjs';
import { BIN } from '../rivals/capture.mjs';

const TASK = fileURLToPath(new URL('../lib/task.mjs', import.meta.url));
const LOOK_EVERY_MS = 200;
const PER_SECOND = 2;
const WITHOUT_PAUSE = { everyMs: 0, writeMs: 0 };
/** The rows of the table, so also the ends of the keys. */
const [MODEST, GREEDY] = [0, 1];

export const neighbour = {
  name: 'neighbour',
  title: 'A small result every 0.5 s, alone and beside a greedy task under the same sidecar',
  rounds: 1,
  tools: ['capture'],
  columns: [
    { key: 'aloneP50S', title: 'alone: close to visible p50', unit: 's' },
    { key: 'aloneMaxS', title: 'the longest', unit: 's' },
    { key: 'besideP50S', title: 'beside it: p50', unit: 's' },
    { key: 'besideMaxS', title: 'the longest', unit: 's' },
    { key: 'times', title: 'p50, times that alone' },
    { key: 'aloneMiB', title: 'sidecar alone, most memory', unit: 'MiB' },
    { key: 'besideMiB', title: 'beside it', unit: 'MiB' },
    { key: 'stored', title: 'stored of the greedy one' },
  ],
  cases: (size) => {
    const isTiny = size === 'tiny';
    const stores = isTiny ? ['S3'] : ['S3', 'a directory'];
    const [names, files, times] = { tiny: [10, 1, 2], usual: [100_000, 8, 150], large: [1e6, 32, 600] }[size];
    const fileMiB = isTiny ? 1 : 256;
    const waitMs = isTiny ? 500 : 10_000;
    const named = [
      {
        name: `${names.toLocaleString('en')} names`,
        greedy: { does: 'burst', sizeBytes: 100, count: names, quiet: true },
      },
      {
        name: `${files} results of ${fileMiB} MiB`,
        greedy: { does: 'burst', sizeBytes: fileMiB * MiB, count: files },
      },
      {
        name: `a checkpoint of ${fileMiB / 2} MiB, ${times} times`,
        greedy: {
          does: 'checkpoint',
          how: 'rename',
          sizeBytes: (fileMiB / 2) * MiB,
          times,
          ...WITHOUT_PAUSE,
        },
      },
    ];
    return named.flatMap(({ name, greedy }) =>
      stores.map((store) => ({
        name: `${name}, ${store}`,
        store,
        greedy: { kind: 'random', waitMs, ...greedy },
        modestCount: isTiny ? 4 : 80,
      })),
    );
  },
  measure: async ({ server, item }) => {
    await server.ask('reset', { keep: 'small' });
    const dir = freshDir();
    const place = item.store === 'S3' ? placeOnServer(server) : placeInDirectory(path.join(dir, 'store'));
    try {
      return figuresOf(item, await runBoth(server, { item, dir, place }));
    } finally {
      fs.rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
    }
  },
};

async function runBoth(server, { item, dir, place }) {
  const modest = {
    does: 'small',
    kind: 'random',
    sizeBytes: 1024,
    count: item.modestCount,
    perSecond: PER_SECOND,
  };
  const logs = [modest, item.greedy].map((_, index) => path.join(dir, `task-${index}.log`));
  const rows = [modest, item.greedy].map(({ does, ...options }, index) => [
    does,
    `"${JSON.stringify(options).replaceAll('"', '""')}"`,
    logs[index],
  ]);
  const table = path.join(dir, 'tasks.csv');
  fs.writeFileSync(table, [['does', 'options', 'log'], ...rows].map((row) => `${row.join(',')}\n`).join(''));
  const files = ['-r', '*.dat', '-k', 'k.chk', '--scratch', dir];
  const jobs = ['--tasks', table, '--jobs', '2', '--memory', '1MiB', '--cpus', '0.01'];
  const argv = ['array', ...place.options, ...files, ...jobs, '--log-level', 'warn', '--'];
  const output = fs.openSync(path.join(dir, 'output'), 'w');
  const child = spawn(BIN, [...argv, process.execPath, TASK, '{does}', '{options}', '{log}'], {
    env: { ...envOf(server, dir), TMPDIR: dir },
    stdio: ['ignore', output, output],
  });
  fs.closeSync(output);
  const memory = [];
  const timer = setInterval(() => {
    const sidecars = tree(child.pid).filter((pid) => commandOf(pid).includes('/sidecar.cjs'));
    memory.push({ atMs: clockMs(), MiB: sidecars.reduce((sum, pid) => sum + pssMiB(pid), 0) });
  }, LOOK_EVERY_MS);
  try {
    const [status] = await once(child, 'close');
    if (status !== 0)
      throw new Error(`status ${status}:\n${fs.readFileSync(path.join(dir, 'output'), 'utf8')}`);
    return { events: logs.map(eventsOf), objects: await place.objects(), memory };
  } finally {
    clearInterval(timer);
    killTree(child.pid);
  }
}

function figuresOf({ greedy }, { events, objects, memory }) {
  const beginMs = events[GREEDY].find(({ event }) => event === 'begin').atMs;
  const of = (index) => objects.filter(({ key }) => new RegExp(`\\.${index}(\\.|$)`).test(key));
  const visibleMs = new Map(of(MODEST).map(({ key, atMs }) => [key.replace(/\.0(\.zst)?$/, ''), atMs]));
  const closes = events[MODEST].filter(({ event }) => event === 'close');
  const lagsS = (isWanted) =>
    closes.filter(isWanted).map(({ name, atMs }) => ((visibleMs.get(name) ?? Infinity) - atMs) / 1000);
  // A name has no log line: what is stored last tells until when the sidecar had something to do for it.
  const endMs = Math.max(beginMs, ...of(GREEDY).map(({ atMs }) => atMs));
  const alone = lagsS(({ atMs }) => atMs < beginMs);
  const beside = lagsS(({ atMs }) => atMs >= beginMs && atMs <= endMs);
  const most = (isWanted) => Math.max(0, ...memory.filter(isWanted).map((one) => one.MiB));
  const results = of(GREEDY).filter(({ key }) => /\.dat\./.test(key)).length;
  const isAll = greedy.does === 'checkpoint' ? of(GREEDY).length > 0 : results === greedy.count;
  const aloneP50S = quantile(alone, 0.5);
  const besideP50S = quantile(beside, 0.5);
  return {
    aloneP50S,
    aloneMaxS: quantile(alone, 1),
    besideP50S,
    besideMaxS: quantile(beside, 1),
    times: besideP50S / aloneP50S,
    aloneMiB: most(({ atMs }) => atMs < beginMs),
    besideMiB: most(({ atMs }) => atMs >= beginMs),
    stored: isAll && visibleMs.size === closes.length ? 'all' : `${results} of ${greedy.count}`,
  };
}

/** Where both store: its options, and what was stored when. */
function placeOnServer(server) {
  return {
    options: ['--to', `s3://${BUCKET}/run`, '--path-style'],
    objects: async () => {
      const versions = await server.ask('versions');
      return versions
        .filter(({ key, deleted }) => !deleted && !key.includes('.capture/'))
        .map(({ key, atMs }) => ({ key: key.replace(/^run\//, ''), atMs }));
    },
  };
}

/** An object gets its name by rename(2), which changes its ctime. */
function placeInDirectory(store) {
  fs.mkdirSync(store);
  const offsetMs = clockMs() - Date.now();
  return {
    options: ['--to', store],
    objects: () =>
      fs
        .readdirSync(store)
        .filter((key) => !key.startsWith('.'))
        .map((key) => ({ key, atMs: fs.statSync(path.join(store, key)).ctimeMs + offsetMs })),
  };
}

function eventsOf(log) {
  const lines = fs.readFileSync(log, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line));
}
