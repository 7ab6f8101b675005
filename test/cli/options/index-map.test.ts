// `--index-map`: src/cli/options/identity.ts.
import { describe, expect, it } from 'vitest';
import { noFiles, mistakesOf, parsed } from '../given.ts';

const RUN = ['--index-map', 'again.txt', '-r', 'r', '--', './t'];
const withFile = (text: string): typeof noFiles => ({
  ...noFiles,
  readText: (file) => (file === '/again.txt' ? text : noFiles.readText(file)),
});

describe('a map of indices', () => {
  it.each([
    ['AWS_BATCH_JOB_ARRAY_INDEX', '0', '17'],
    ['JOB_COMPLETION_INDEX', '1', '3'],
    ['SLURM_ARRAY_TASK_ID', '2', 'left-5'],
  ])('says by its line which index the task of %s=%s is: %s', (name, value, index) => {
    const { settings } = parsed(RUN, { [name]: value }, withFile('17\n3\r\nleft-5\n\n'));
    expect(settings.identity).toMatchObject({
      index,
      indexSource: `line ${value} of again.txt, ${name}`,
      scheduler: { [name]: value },
    });
  });

  it.each([
    [
      '17\n3\n',
      '2',
      "--index-map 'again.txt': there is no line 2 (JOB_COMPLETION_INDEX): its lines are 0 to 1",
    ],
    ['', '0', "--index-map 'again.txt': there is no line 0 (JOB_COMPLETION_INDEX): it is empty"],
    [
      '17\n3\n',
      'x',
      "--index-map 'again.txt': there is no line x (JOB_COMPLETION_INDEX): its lines are 0 to 1",
    ],
    ['17\n3\n17\n', '1', "--index-map 'again.txt': lines 0 and 2 are the same index, 17"],
    ['17\n\n3\n', '0', "--index-map 'again.txt': line 1 is not an index: ''"],
    ['17\na/b\n', '0', "--index-map 'again.txt': line 1 is not an index: 'a/b'"],
  ])('%j is refused for task %s', (text, value, message) => {
    const [mistake = '', ...more] = mistakesOf(RUN, { JOB_COMPLETION_INDEX: value }, withFile(text));
    expect(mistake.split(' | ')).toEqual([message, expect.stringMatching(/\S/)]);
    expect(more).toEqual([]);
  });

  it('is refused where it cannot be read, where no engine counts, and beside --index', () => {
    const first = (argv: readonly string[], env: NodeJS.ProcessEnv, text?: string): string =>
      mistakesOf(argv, env, text === undefined ? noFiles : withFile(text))[0] ?? '';
    expect(first(RUN, { JOB_COMPLETION_INDEX: '0' })).toMatch(/cannot read it: ENOENT.* \| put the file/);
    expect(first(RUN, {}, '17\n')).toMatch(/no engine says which line is meant \| start it as an array/);
    expect(first(['--index', '3', ...RUN], {}, '17\n')).toMatch(/^--index and --index-map cannot both/);
  });

  it('may come from the environment', () => {
    const env = { JOB_COMPLETION_INDEX: '1', CAPTURE_INDEX_MAP: '/again.txt' };
    expect(parsed(['-r', 'r', '--', './t'], env, withFile('5\n6\n')).settings.identity.index).toBe('6');
  });
});
