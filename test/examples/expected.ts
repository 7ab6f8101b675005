// What an example prints, compared with its expected.txt.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';

const EXAMPLES = path.resolve(import.meta.dirname, '../../examples');

/** `*` in examples/<example>/expected.txt stands for what differs from run to run, within a line. */
export function expectOutputOf(example: string, output: string): void {
  const expected = readFileSync(path.join(EXAMPLES, example, 'expected.txt'), 'utf8').trimEnd();
  const pattern = expected
    .split('*')
    .map((text) => text.replaceAll(/[\\^$.|?+()[\]{}]/g, String.raw`\$&`))
    .join('.*');
  expect(output.trimEnd()).toMatch(new RegExp(`^${pattern}$`));
}
