// Suggests the word that a mistyped word was meant to be. Pure. It suggests nothing rather than an unrelated word.

/** A word that is further away is another word. */
const MOST_EDITS = 3;

/** The candidate with the fewest edits; undefined if even that one is a different word. */
export function nearestWord(word: string, candidates: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let fewest = MOST_EDITS + 1;
  for (const candidate of candidates) {
    const edits = editDistance(word, candidate);
    // More than half of the shorter word must remain: `true` is not a mistyped `prune`.
    if (edits < fewest && edits < Math.min(word.length, candidate.length) / 2) {
      fewest = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

/** Counts insertions, deletions, substitutions and swaps of two neighbours. It keeps two rows of the table. */
function editDistance(a: string, b: string): number {
  let before: readonly number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSwapped = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? (before[j - 2] ?? 0) + 1 : Infinity;
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substituted, swapped, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
