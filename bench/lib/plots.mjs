// How figures grow, as SVG: one line for each tool, both axes logarithmic. So little is drawn that no library is worth
// its packages.
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [860, 400, 80, 610, 50, 340];
const COLOURS = ['#1f5fbf', '#c8553d', '#3b8b5a', '#8a5fb0', '#b08a2e', '#5b6770'];
const STEPS = Array.from({ length: 24 }, (_, n) =>
  [1, 2, 5].map((step) => Number(`${step}e${n - 8}`)),
).flat();

/** By the names of their files, without the ending. */
export function plotsOf({ parts }) {
  return parts.flatMap(({ name, rows, plots = [] }) =>
    plots.map((plot) => ({
      name: `${name}-${plot.key}`,
      title: plot.title,
      svg: draw(plot, linesOf(rows, plot.key)),
    })),
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
  const [x, y] = [axis(points, 0, [LEFT, RIGHT]), axis(points, 1, [BOTTOM, TOP])];
  const grid = [
    ...x.ticks.map(([at, word]) => line([at, TOP, at, BOTTOM], '#ddd', 1) + text(word, at, BOTTOM + 18)),
    ...y.ticks.map(
      ([at, word]) => line([LEFT, at, RIGHT, at], '#ddd', 1) + text(word, LEFT - 8, at + 4, 'end'),
    ),
  ];
  const drawn = lines.map(([tool, of], n) => {
    const placed = of.map(([a, b]) => [x.at(a), y.at(b)]);
    const dots = placed.map(([a, b]) => `<circle cx="${a}" cy="${b}" r="3.5" fill="${COLOURS[n]}"/>`);
    return (
      line(placed, COLOURS[n], 2) +
      dots.join('') +
      text(tool, RIGHT + 14, TOP + 12 + 18 * n, 'start', COLOURS[n])
    );
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
${[...grid, ...drawn].join('\n')}
${text(title, (LEFT + RIGHT) / 2, 26)}
${text(xTitle, (LEFT + RIGHT) / 2, HEIGHT - 14)}
<g transform="translate(20 ${(TOP + BOTTOM) / 2}) rotate(-90)">${text(yTitle, 0, 0)}</g>
</svg>
`;
}

/** From a tick at or below the least value to one at or above the most; powers of ten alone where ticks are many. */
function axis(points, dimension, [from, to]) {
  const values = points.map((point) => point[dimension]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const steps = most / least > 1000 ? STEPS.filter((_, n) => n % 3 === 0) : STEPS;
  const first = steps.findLastIndex((step) => step <= least);
  const last = Math.max(
    first + 1,
    steps.findIndex((step) => step >= most),
  );
  const span = Math.log(steps[last] / steps[first]);
  const at = (value) => Math.round(from + ((to - from) * Math.log(value / steps[first])) / span);
  return { at, ticks: steps.slice(first, last + 1).map((step) => [at(step), step.toLocaleString('en')]) };
}

function line(points, colour, width) {
  return `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="${width}"/>`;
}

function text(words, x, y, ...[anchor = 'middle', colour = '#333']) {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${colour}">${words}</text>`;
}
