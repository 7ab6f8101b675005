// JSON that others may have written: in records, list segments, metadata and the queue. A text of some MiB can become so many
// values that the heap ends, and with it the process. So they are counted before any is made.

/**
 * Names and values of one text. A record of 40,000 checkpoint files has as many; parsed it takes 50 MiB for a moment. What
 * takes most for each, names that differ all, takes 85 MiB.
 */
const MOST_VALUES = 1_000_000;
/** Ours are nested eight deep. */
const DEEPEST = 64;

/** How many more may be kept of several texts: the values of one that is read are taken off. */
export interface ValueBudget {
  left: number;
}

/** The value that the text stands for, or why it is not made. */
export function parseForeignJson(
  text: string,
  budget: ValueBudget = { left: MOST_VALUES },
): { readonly value: unknown } | { readonly invalid: string } {
  const counted = countValues(text, Math.min(MOST_VALUES, budget.left));
  if (counted === 'too deep') return { invalid: `it is nested more than ${DEEPEST} deep` };
  if (counted === 'too many')
    return {
      invalid:
        budget.left < MOST_VALUES
          ? 'with others that are read already it has too many names and values'
          : `it has more than ${MOST_VALUES} names and values`,
    };
  try {
    const value: unknown = JSON.parse(text);
    budget.left -= counted;
    return { value };
  } catch {
    return { invalid: 'not JSON' };
  }
}

const QUOTE = 0x22;
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY, COMMA, COLON] = ['{', '}', '[', ']', ',', ':'].map(
  (char) => char.charCodeAt(0),
);

/** Each value but the first stands behind one of `[`, `{`, `,` and `:`, and so does each name. */
function countValues(text: string, most: number): number | 'too deep' | 'too many' {
  let values = 1;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) at = endOfString(text, at);
    else if (char === COMMA || char === COLON) values += 1;
    else if (char === OPEN_OBJECT || char === OPEN_ARRAY) {
      values += 1;
      depth += 1;
    } else if (char === CLOSE_OBJECT || char === CLOSE_ARRAY) depth -= 1;
    if (depth > DEEPEST) return 'too deep';
    if (values > most) return 'too many';
  }
  return values;
}

/** Of its last quote, or of the text. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at === -1) return text.length;
    let backslashes = 0;
    while (text.charAt(at - 1 - backslashes) === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
}
