// What was wanted, beside what is measured.
import { worded } from './figures.mjs';

const W2 = '64 KiB';

/** `of` finds the figure in the rows of a part; a target without its figure is not measured. */
const TARGETS = [
  {
    part: 'small',
    what: '2,000 results of 64 KiB at 200 a second: close to visible p50, beside rclone mount',
    wanted: 'at most 0.05',
    of: (rows) => ratioTo(rows, W2, 'rclone mount', 'p50S'),
    met: (value) => value <= 0.05,
  },
  {
    part: 'small',
    what: 'the same, p99',
    wanted: 'at most 0.2',
    of: (rows) => ratioTo(rows, W2, 'rclone mount', 'p99S'),
    met: (value) => value <= 0.2,
  },
  {
    part: 'small',
    what: 'the same, CPU of launcher and sidecar',
    wanted: 'at most 0.5',
    of: (rows) => ratioTo(rows, W2, 'rclone mount', 'cpuS'),
    met: (value) => value <= 0.5,
  },
  {
    part: 'large',
    what: 'one large result (float64): close to visible, beside the best rival',
    wanted: 'at most 0.8',
    of: (rows) => ratioToBest(rows, 'float64', 'visibleS'),
    met: (value) => value <= 0.8,
  },
  {
    part: 'large',
    what: 'the same, CPU',
    wanted: 'at most 0.6',
    of: (rows) => ratioToBest(rows, 'float64', 'cpuS'),
    met: (value) => value <= 0.6,
  },
  {
    part: 'large',
    what: 'the same, in times of md5 and zstd-1 alone',
    wanted: 'at most 1.11',
    of: (rows) => figure(rows, 'float64', 'timesAlone'),
    met: (value) => value <= 1.11,
  },
  {
    part: 'start',
    what: "start to the task's first instruction, S3, in times of `node -e 0`",
    wanted: 'at most 2.5',
    of: (rows) => figure(rows, 'S3', 'times'),
    met: (value) => value <= 2.5,
  },
  {
    part: 'memory',
    what: 'memory of the launcher, 4 tasks at once (PSS)',
    wanted: 'at most 9 MiB',
    of: (rows) => figure(rows, '', 'launcherMiB'),
    unit: 'MiB',
    met: (value) => value <= 9,
  },
  {
    part: 'memory',
    what: 'memory of the sidecar, 4 tasks at once (PSS)',
    wanted: 'at most 30 MiB',
    of: (rows) => figure(rows, '', 'sidecarMiB'),
    unit: 'MiB',
    met: (value) => value <= 30,
  },
  {
    part: 'file-size',
    what: 'memory at any file size (PSS of both, the most)',
    wanted: 'at most 120 MiB',
    of: (rows) => most(rows, 'peakMiB'),
    unit: 'MiB',
    met: (value) => value <= 120,
  },
  {
    part: 'pending',
    what: 'memory with 200,000 pending files (PSS of both)',
    wanted: 'at most 150 MiB',
    of: (rows) => figure(rows, '200,000', 'peakMiB'),
    unit: 'MiB',
    met: (value) => value <= 150,
  },
  {
    part: 'idle',
    what: 'CPU while nothing is closed, for each minute',
    wanted: '0 ms',
    of: (rows) => figure(rows, '', 'cpuMs'),
    unit: 'ms',
    met: (value) => value === 0,
  },
  {
    part: 'idle',
    what: 'wake-ups while nothing is closed, for each minute',
    wanted: '0',
    of: (rows) => figure(rows, '', 'sleeps'),
    met: (value) => value === 0,
  },
  {
    part: 'slowdown',
    what: 'slow-down of a task that uses all cores, 64 KiB at 200 a second',
    wanted: 'at most 10 %',
    of: (rows) => figure(rows, '', 'slowdownPercent'),
    unit: '%',
    met: (value) => value <= 10,
  },
  {
    part: 'restore',
    what: "restore, of the link's rate",
    wanted: 'at least 90 %',
    of: (rows) => figure(rows, 'MiB/s', 'ofLinkPercent'),
    unit: '%',
    met: (value) => value >= 90,
  },
];

export function targetsOf({ parts }) {
  return TARGETS.map(({ part, what, wanted, of, met, unit }) => {
    const rows = parts.find(({ name }) => name === part)?.rows;
    const value = rows === undefined ? undefined : of(rows);
    const measured = Number.isFinite(value) ? worded(value, unit) : 'not measured';
    return { what, wanted, measured, met: Number.isFinite(value) ? met(value) : undefined };
  });
}

function figure(rows, word, key) {
  return rows.find((row) => row.tool === 'capture' && row.case.includes(word))?.figures[key];
}

function most(rows, key) {
  return Math.max(...rows.filter(({ tool }) => tool === 'capture').map(({ figures }) => figures[key]));
}

function ratioTo(rows, word, tool, key) {
  return rows.find((row) => row.tool === tool && row.case.includes(word))?.ratios[key];
}

/** The rival to which capture's figure is the worst. */
function ratioToBest(rows, word, key) {
  const ratios = rows.filter((row) => row.case.includes(word)).map((row) => row.ratios[key]);
  return Math.max(...ratios.filter((ratio) => Number.isFinite(ratio)));
}
