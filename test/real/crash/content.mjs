// What the task of the crash tests writes, and how to tell that a file is whole.

/** So large that it takes several parts, where BIG says so: the result that is renamed into place. */
const BIG_LINES = 700_000;
const LINES = 200;

/** The content of a file in one round: one line, many times. */
export function content(name, round, big = process.env.BIG === '1') {
  const lines = big && name.includes('/m') ? BIG_LINES : LINES;
  return `${name} ${round}\n`.repeat(lines);
}

/** The name and round that a whole content says; undefined for anything else. */
export function readContent(bytes) {
  const text = bytes.toString('latin1');
  const line = text.slice(0, text.indexOf('\n') + 1);
  const [name, round] = line.trim().split(' ');
  const isWhole = line !== '' && [LINES, BIG_LINES].some((lines) => text === line.repeat(lines));
  return isWhole ? { name, round: Number(round) } : undefined;
}
