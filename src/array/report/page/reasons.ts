// Why indices failed or are stale: how their last attempt ended, and the last line that its task wrote. Pure.
import { type IndexEntry, lastOf, type Report, textOf } from '../data.ts';

export interface Reason {
  /** How the last attempts ended. */
  readonly how: string;
  /** Their last line, with `…` for numbers if these differ. Undefined: no output is stored, or the page has none. */
  readonly line: string | undefined;
  readonly entries: readonly IndexEntry[];
  /** Words that find these indices. */
  readonly query: string;
}

/** Most frequent first. */
export function reasonsOf(report: Report, entries: readonly IndexEntry[]): readonly Reason[] {
  const found = new Map<string, { how: string; same: string; lines: Set<string>; entries: IndexEntry[] }>();
  for (const entry of entries) {
    const last = lastOf(entry);
    if (last === undefined || !['failed', 'stale', 'ended', 'preempted'].includes(entry.state)) continue;
    const how = textOf(report, last.how);
    const line = lastLineOf(entry);
    const same = withoutNumbers(line);
    const key = `${how}\n${same}`;
    const group = found.get(key) ?? { how, same, lines: new Set(), entries: [] };
    found.set(key, group);
    group.lines.add(line);
    group.entries.push(entry);
  }
  return [...found.values()]
    .toSorted((a, b) => b.entries.length - a.entries.length)
    .map(({ how, same, lines, entries: of }) => {
      const [line = '', ...others] = lines;
      const shown = others.length === 0 ? line : same;
      return { how, line: shown === '' ? undefined : shown, entries: of, query: `${how} ${shown}`.trim() };
    });
}

/** What words of a filter are looked for in. */
export function lineWords(entry: IndexEntry): string {
  const line = lastLineOf(entry);
  return `${line} ${withoutNumbers(line)}`;
}

/** Capture's own messages, if they are in the same file (model/format/message-line.ts). */
const OWN = /^(\S+Z )?capture: |^ {2}try: /;

/** Of stderr, if it is stored alone. Empty if there is none. */
function lastLineOf({ said = [] }: IndexEntry): string {
  const { lines = [] } = said.find(({ stream }) => stream === 'stderr') ?? said[0] ?? {};
  return lines.findLast((line) => line.trim() !== '' && !OWN.test(line))?.trim() ?? '';
}

/** Numbers differ from index to index: in names, times, addresses. */
function withoutNumbers(line: string): string {
  return line.replaceAll(/0x[\da-f]+|\d+/gi, '…');
}
