// What a terminal shows after these bytes: just enough of one for messages and a progress line. A line that is too long
// is cut, as for the progress line (DECAWM off), or wraps.
const WIDTH = 80;

/** The lines, without blanks at their ends. Throws at a control sequence that capture does not use. */
export function screen(text: string): readonly string[] {
  const rows: string[][] = [[]];
  let column = 0;
  let wraps = true;
  // oxlint-disable-next-line no-control-regex -- that is what stands there
  for (const [token] of text.matchAll(/\u001b\[[?\d]*[A-Za-z]|[^]/g)) {
    const row = rows.at(-1) ?? [];
    if (token === '\n') {
      rows.push([]);
      column = 0;
    } else if (token === '\r') column = 0;
    else if (token === '\u001b[K') row.length = Math.min(row.length, column);
    else if (token === '\u001b[?7l' || token === '\u001b[?7h') wraps = token.endsWith('h');
    else if (token.length > 1) throw new Error(`unknown sequence ${JSON.stringify(token)}`);
    else if (column < WIDTH) row[column++] = token;
    else if (wraps) {
      rows.push([token]);
      column = 1;
    } else row[WIDTH - 1] = token;
  }
  return rows.map((row) => row.join('').trimEnd());
}
