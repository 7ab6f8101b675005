// Which text can be read on the cells of the map, in the light and in the dark.
import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { blended, moreReadable } from '../../../../src/array/report/page/contrast.ts';
import { STATES } from '../../../../src/array/state.ts';

const STYLE = fs.readFileSync('src/array/report/page/style.css', 'utf8');
const [LIGHT = '', DARK = ''] = STYLE.split('prefers-color-scheme: dark');
const colourIn = (style: string, name: string): string =>
  new RegExp(`--${name}: (#[0-9a-f]{6});`).exec(style)?.[1] ?? `no ${name}`;

describe.each([
  ['light', LIGHT, ['failed', 'stale', 'ended', 'running']],
  ['dark', DARK, ['failed', 'stale', 'preempted', 'ended', 'running']],
] as const)('text on cells in the %s', (_, style, onPaper) => {
  const [paper, ink] = [colourIn(style, 'paper'), colourIn(style, 'ink')];

  it.each(STATES)('stands out where the state is %s', (state) => {
    const chosen = moreReadable([ink, paper], blended(colourIn(style, state), paper, 1));
    expect(chosen === paper).toBe(onPaper.some((name) => name === state));
  });

  it('is ink where nearly nothing is painted', () => {
    expect(moreReadable([ink, paper], blended(colourIn(style, 'accent'), paper, 0.15))).toBe(ink);
  });
});
