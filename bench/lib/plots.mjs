// How figures grow, as SVG: one line for each tool, both axes logarithmic. So little is drawn that no library is worth
// its packages.
import { worded } from './figures.mjs';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 400, 80, 30, 50, 60];
const COLOURS = ['#1f5fbf', '#c8553d', '#3b8b5a', '#8a5fb0', '#b08a2e', '#5b6770'];

export function plotsOf({ parts }) {
  return parts.flatMap(({ name, rows, plots = [] }) =>
    plots.map((plot) => ({ name: `${name}-${plot.key}`, svg: draw(plot, linesOf(rows, plot.key)) })),
  );
}

function linesOf(rows, key) {
  const found = new Map();
  for (const { tool, x, figures } of rows) {
    if (x === undefined || !(figures[key] > 0)) continue;
    found.set(tool, [...(found.get(tool) ?? []), [x, figures[key]]]);
  }
  return [...found];
}

function draw({ title, xTitle, yTitle }, lines) {
  const points = lines.flatMap(([, of]) => of);
  const x = axis(
    points.map(([one]) => one),
    LEFT,
    WIDTH - RIGHT,
  );
  const y = axis(
    points.map(([, one]) => one),
    HEIGHT - BOTTOM,
    TOP,
  );
  const ticks = [
    ...x.ticks.map((value) => {
      const at = x.at(value);
      return `${stroke(
        [
          [at, TOP],
          [at, HEIGHT - BOTTOM],
        ],
        '#ddd',
        1,
      )}${text(worded(value), at, HEIGHT - BOTTOM + 18)}`;
    }),
    ...y.ticks.map((value) => {
      const at = y.at(value);
      return `${stroke(
        [
          [LEFT, at],
          [WIDTH - RIGHT, at],
        ],
        '#ddd',
        1,
      )}${text(worded(value), LEFT - 8, at + 4, 'end')}`;
    }),
  ];
  const drawn = lines.map(([tool, of], n) => {
    const colour = COLOURS[n % COLOURS.length];
    const placed = of.map(([a, b]) => [x.at(a), y.at(b)]);
    const dots = placed.map(
      ([a, b]) => `<circle cx="${a.toFixed(1)}" cy="${b.toFixed(1)}" r="3.5" fill="${colour}"/>`,
    );
    const label = text(tool, LEFT + 12, TOP + 18 + 17 * n, 'start', colour);
    return `${stroke(placed, colour, 2)}${dots.join('')}${label}`;
  });
  const names = [
    text(title, WIDTH / 2, 26, 'middle', '#000', 16),
    text(xTitle, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14),
    `<g transform="translate(20 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">${text(yTitle, 0, 0)}</g>`,
  ];
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" font-family="sans-serif">`;
  const ground = `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`;
  return `${[head, ground, ...ticks, ...drawn, ...names, '</svg>'].join('\n')}\n`;
}

/** Logarithmic, from a tick below the least to one above the most: 1, 2, 5, 10, or powers of ten where these are many. */
function axis(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const powers = Array.from({ length: 24 }, (_, n) => 10 ** (n - 8));
  const steps = most / least > 1000 ? [1] : [1, 2, 5];
  const all = powers.flatMap((power) => steps.map((step) => Number((power * step).toPrecision(1))));
  const first = all.findLastIndex((tick) => tick <= least * 1.0001);
  const last = all.findIndex((tick) => tick >= most * 0.9999);
  const ticks = all.slice(first, Math.max(last, first + 1) + 1);
  const span = Math.log(ticks.at(-1) / ticks[0]);
  return { ticks, at: (value) => from + ((to - from) * Math.log(value / ticks[0])) / span };
}

function stroke(points, colour, width) {
  const path = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');
  return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="${width}"/>`;
}

function text(words, x, y, ...[anchor = 'middle', colour = '#333', size = 12]) {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${colour}" font-size="${size}">${words}</text>`;
}
