// The programs of docs/library.md, run and compiled as a reader would.
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type Installed, installPackage } from './installed.ts';

const PAGE = fs.readFileSync(new URL('../../docs/library.md', import.meta.url), 'utf8');
/** The first block of code in this language. */
const blockOf = (language: string): string =>
  new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'ms').exec(PAGE)?.[1] ?? '';

let installed: Installed;
beforeAll(async () => {
  installed = await installPackage();
});
afterAll(() => installed.close());

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(installed.dir, 'page-'));
});

it('the program in JavaScript runs a task, and brings its results', async () => {
  const store = path.join(dir, 'store');
  fs.writeFileSync(path.join(dir, 'program.js'), blockOf('js').replace('/shared/store/run7', store));
  const { stdout } = await promisify(execFile)(process.execPath, ['program.js'], { cwd: dir });
  const lines = stdout.split('\n');
  expect(lines[0]).toMatch(/^start task sh, index 3, attempt 1 /);
  expect(lines.find((line) => line.startsWith('end '))).toContain('stored 1 result');
  expect(lines.slice(-5)).toEqual(['0', '9 done', '3 0', '1', '']);
  expect(fs.readdirSync(path.join(dir, 'results'), { recursive: true })).toEqual(['3', '3/final.data']);
});

/** One error is expected in the line after each comment: without it, the comment is an error. */
const WRONG = `
import { CaptureError, restore, run, status, verify } from 'capture-sidecar';
import type { CaptureEvent, RunSettings, State } from 'capture-sidecar';

export const settings: RunSettings = { results: ['a', 'b'], index: 3, keep: true, 'task-name': 't', command: ['true'] };
// @ts-expect-error
export const misspelt: RunSettings = { resultz: 'a' };
// @ts-expect-error
export const noText: RunSettings = { results: 3 };
// @ts-expect-error
export const noFlag: RunSettings = { keep: 'yes' };
// @ts-expect-error
restore({ command: ['true'] });
// @ts-expect-error
(await run(settings)).end.kind;
// @ts-expect-error
run(settings, { stdio: 'pipe' });
// @ts-expect-error
(await status('/store')).attempts;
export const { attempts } = await status('/store', { index: 3 });
const [first] = (await status('/store')).indices;
export const state: State | undefined = first?.state;
// @ts-expect-error
export const noState: 'lost' | undefined = first?.state;
for await (const event of run(settings, { signal: AbortSignal.timeout(9) })) event satisfies CaptureEvent;
// @ts-expect-error
for await (const event of run(settings)) event.event === 'no event';
for await (const { damaged } of verify('/store')) damaged.map(({ why }) => why.length);
export const statusOf = (error: unknown): number => (error instanceof CaptureError ? error.status : 0);
`;

it('the types compile under strict rules without packages of ours, and refuse what is wrong', () => {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    target: 'es2023',
    module: 'nodenext',
    types: [],
    noEmit: true,
  };
  fs.writeFileSync(path.join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  fs.writeFileSync(path.join(dir, 'program.ts'), blockOf('js'));
  fs.writeFileSync(path.join(dir, 'wrong.ts'), WRONG);
  const compile = (): string => {
    try {
      return execFileSync(process.execPath, [path.resolve('node_modules/.bin/tsc')], {
        cwd: dir,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch (error) {
      return (error as { readonly stdout: string }).stdout;
    }
  };
  expect(compile()).toBe('');
  fs.appendFileSync(path.join(dir, 'program.ts'), 'run({ results: 3 });\n');
  expect(compile()).toMatch(/^program\.ts\(.*: error TS2322: Type 'number' is not assignable/);
});

it('the program in Python says how each index ended, and passes on what the task writes', async () => {
  const job = `array: 0-1
to: store
workdir: auto
results: r.dat
command: echo "I am {index}" >&2; echo '[1]' >&2; echo null >&2; seq {index} > r.dat; exit {index}
`;
  fs.writeFileSync(path.join(dir, 'job.yaml'), job);
  const bin = path.join(installed.dir, 'node_modules/capture-sidecar/bin');
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
  const { stdout, stderr } = await promisify(execFile)('python3', ['-c', blockOf('python')], {
    cwd: dir,
    env,
  });
  expect(stderr).toBe('I am 0\n[1]\nnull\nI am 1\n[1]\nnull\n');
  expect(stdout.split('\n')).toEqual([
    expect.stringMatching(/^0 0 end stored 1 result/),
    expect.stringMatching(/^1 1 end failed: the task ended with 1/),
    expect.stringMatching(/^2 64 mistake .*the job has no index 2$/),
    '',
  ]);
});
