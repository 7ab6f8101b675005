// JSON that others may have written: in records, list segments, metadata and the queue. A text of some MiB can expand
// into so many values that the process runs out of heap. So the values are counted before any is created.

/**
 * Names and values of one text. A record of 40,000 checkpoint files has this many; parsing it takes 50 MiB for a
 * moment. The worst case, all names different, takes 85 MiB.
 */
const MOST_VALUES = 1_000_000;
/** capture's own JSON is nested eight deep. */
const DEEPEST = 64;

/** How many more values may be kept in memory, over several texts. Each parsed text is subtracted. */
export interface ValueBudget {
  left: number;
  /** A text was refused because of those before it. */
  isExceeded?: boolean;
}

/** The parsed value, or the reason why the text is refused. */
export function parseForeignJson(
  text: string,
  budget: ValueBudget = { left: MOST_VALUES },
): { readonly value: unknown } | { readonly invalid: string } {
  const counted = countValues(text, Math.min(MOST_VALUES, budget.left));
  if (counted === 'too deep') return { invalid: `it is nested more than ${DEEPEST} deep` };
  if (counted === 'too many') {
    if (budget.left >= MOST_VALUES) return { invalid: `it has more than ${MOST_VALUES} names and values` };
    budget.isExceeded = true;
    return { invalid: 'with others that are read already it has too many names and values' };
  }
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

/** Each value but the first, and each name, follows one of `[`, `{`, `,` and `:`. */
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

/** The position of its closing quote, or of the end of the text. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at === -1) return text.length;
    let backslashes = 0;
    while (text.charAt(at - 1 - backslashes) === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
}
