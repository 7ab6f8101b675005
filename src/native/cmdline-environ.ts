// The command line and the environment of this process, with all of their bytes. Node decodes both as UTF-8, and
// replaces every other byte by U+FFFD. Here such a byte becomes a lone surrogate (model/path), as in names of files.
import fs from 'node:fs';
import { decodePath } from '../model/path.ts';

/** The arguments after those of Node and the script (proc_pid_cmdline(5)). */
export function ownArguments(): readonly string[] {
  const seen = process.argv.slice(2);
  if (!seen.some(isLossy)) return seen;
  const words = wordsOf('cmdline').slice(-seen.length);
  return seen.map((word, at) => exact(word, words[at]));
}

/** The environment (proc_pid_environ(5)). */
export function ownEnvironment(): NodeJS.ProcessEnv {
  const seen = process.env;
  const lossy = Object.entries(seen).filter(([, value]) => isLossy(value));
  if (lossy.length === 0) return seen;
  const words = wordsOf('environ');
  const exactOf = ([name, value]: readonly [string, string | undefined]): [string, string | undefined] => {
    const word = words.find((one) => one.toString('latin1').startsWith(`${name}=`));
    return [name, exact(value ?? '', word?.subarray(name.length + 1))];
  };
  return { ...seen, ...Object.fromEntries(lossy.map(exactOf)) };
}

function isLossy(text: string | undefined): boolean {
  return text?.includes('\uFFFD') === true;
}

/** Decodes the bytes without loss if Node has made `seen` of them; else `seen`. */
function exact(seen: string, bytes: Buffer | undefined): string {
  return bytes?.toString('utf8') === seen ? decodePath(bytes) : seen;
}

function wordsOf(file: 'cmdline' | 'environ'): readonly Buffer[] {
  let text: string;
  try {
    text = fs.readFileSync(`/proc/self/${file}`, 'latin1');
  } catch {
    return []; // no /proc: the text stays as Node has it
  }
  return text
    .split('\0')
    .slice(0, -1)
    .map((word) => Buffer.from(word, 'latin1'));
}
