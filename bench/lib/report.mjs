// The results in markdown: what `npm run bench` prints, and what stands in docs/dev/performance/figures.md.
import { worded } from './figures.mjs';
import { targetsOf } from './targets.mjs';

export function report(results) {
  const { machine: here, versions, commit, changed, date, large, minutes } = results;
  const others = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const load = here.loadAverage > 0.5 ? `; other work was going on (load ${here.loadAverage})` : '';
  const lines = [
    `Measured on ${date.slice(0, 10)} in ${minutes} min at commit ${commit}${changed ? ', changed' : ''}${large ? ', `--large`' : ''}: ` +
      `${here.cores} cores, ${here.memoryGiB} GiB, Linux ${here.kernel}, Node ${here.node}${load}. ` +
      `${others.join(', ')}.`,
    '',
    '### Targets',
    '',
    table(
      ['what', 'wanted', 'measured', 'met'],
      targetsOf(results).map(({ what, wanted, measured, met }) => [
        what,
        wanted,
        measured,
        met === undefined ? '-' : met ? 'yes' : 'no',
      ]),
    ),
    ...results.parts.map(reportPart),
  ];
  return lines.join('\n');
}

/** In brackets: capture's figure divided by this one, round by round, the median. */
export function reportPart({ title, columns, rounds, rows }) {
  const head = ['', 'tool', ...columns.map((column) => column.title)];
  const body = rows.map((row, at) => [
    rows[at - 1]?.case === row.case ? '' : row.case,
    row.tool,
    ...columns.map((column) => cell(row, column)),
  ]);
  return `\n### ${title} (${rounds} ${rounds === 1 ? 'round' : 'rounds'})\n\n${table(head, body)}`;
}

function cell({ figures, ratios, rounds }, { key, unit }) {
  const failed = rounds.find(({ error }) => error !== undefined);
  if (failed !== undefined && figures[key] === undefined) return 'failed';
  const ratio = ratios[key];
  return worded(figures[key], unit) + (Number.isFinite(ratio) ? ` (${worded(ratio)})` : '');
}

function table(head, body) {
  const rows = [head, head.map(() => '---'), ...body];
  return rows.map((cells) => `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')).join('\n');
}
