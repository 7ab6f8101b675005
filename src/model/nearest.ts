// What a mistyped word was meant to be. Pure; it proposes nothing rather than another word.

/** More edits than this are another word. */
const MOST_EDITS = 3;

/** The candidate with the fewest edits, or undefined if even that is a different word. */
export function nearestWord(word: string, candidates: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let fewest = MOST_EDITS + 1;
  for (const candidate of candidates) {
    const edits = editDistance(word, candidate);
    // More than half of the shorter one must remain: `true` is no mistyped `prune`.
    if (edits < fewest && edits < Math.min(word.length, candidate.length) / 2) {
      fewest = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

/** Levenshtein's distance: insertions, deletions and substitutions, one row of the table at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
