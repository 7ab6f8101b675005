// Puts the results into docs/dev/performance/figures.md, below its heading, and the plots beside it.
import fs from 'node:fs';
import { plotsOf } from './plots.mjs';
import { report } from './report.mjs';

const PAGE = new URL('../../docs/dev/performance/figures.md', import.meta.url);
const PLOTS = new URL('../../docs/dev/performance/', import.meta.url);
const HEADING = '## Figures\n';

export function writeDocs(results) {
  const page = fs.readFileSync(PAGE, 'utf8');
  const above = page.slice(0, page.indexOf(HEADING) + HEADING.length);
  const plots = plotsOf(results);
  fs.mkdirSync(PLOTS, { recursive: true });
  for (const { name, svg } of plots) fs.writeFileSync(new URL(`${name}.svg`, PLOTS), svg);
  const images = plots.map(({ name, title }) => `![${title}](${name}.svg)`);
  fs.writeFileSync(
    PAGE,
    `${[above + '\n' + report(results), '### Plots', images.join('\n')].join('\n\n')}\n`,
  );
}
