import { describe, expect, it } from 'vitest';
import { checkPattern } from '../../../src/cli/options/patterns.ts';

const check = (text: string) => checkPattern(text, '--results', '/scratch/x');

describe('a pattern of the user', () => {
  it.each([
    ['r.dat', 'r.dat'],
    ['./r.dat', 'r.dat'],
    ['a//b/./c', 'a/b/c'],
    ['out/', 'out/'],
    ['./out/./', 'out/'],
    ['.', '**'],
    ['./', '**'],
    ['a..b', 'a..b'],
    ['a[b', 'a[b'],
    ['{a', '{a'],
    ['.captured', '.captured'],
  ])('%j is %j', (text, plain) => expect(check(text)).toBe(plain));

  it.each([
    ['', 'empty', "--results 'out/*.dat'"],
    ['  ', 'empty', "--results 'out/*.dat'"],
    ['/scratch/x/out/r.dat', 'absolute', "--results 'out/r.dat'"],
    ['/etc/passwd', 'absolute', '--workdir'],
    ['../r.dat', "'..'", '--workdir'],
    ['a/../../r.dat', "'..'", '--workdir'],
    ['{a,..}/r.dat', "'..'", '--workdir'],
    ['.capture/x', "capture's own", 'elsewhere'],
    ['./.capture', "capture's own", 'elsewhere'],
    ['[z-a]', 'not a valid glob', 'backslash'],
    ['a\0b', 'NUL', 'without'],
  ])('%j is refused: %s', (text, why, hint) => {
    expect(check(text)).toEqual({
      message: expect.stringContaining(why),
      hint: expect.stringContaining(hint),
    });
  });

  it('cannot forge a line of the message', () => {
    expect(check('/a\ncapture: all is well')).toMatchObject({ message: expect.not.stringContaining('\n') });
  });
});
