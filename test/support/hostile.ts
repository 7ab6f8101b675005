// Text from others that does more than show on a terminal. It holds each kind of character that model/path.ts escapes,
// so that a test finds any that reached a terminal unescaped.

/** A background colour that capture never uses, a window title, both with C1 codes, and forged lines. */
export const HOSTILE =
  'x\u001b[41mred\u001b]0;title\u0007\u009b41m\u009d0;t\u009c\u0085\u007f\b\u202eturned\u202c\u2066\u061c\u200f\u2028\u2029\rFORGED\r\nFORGED\nFORGED';

/** What capture itself writes: colours, a progress line, a question, a redrawn screen. */
// oxlint-disable-next-line no-control-regex -- that is what stands there
const OURS = /\u001b\[(?:(?!41m)[\d;]*m|\d*[AGJK]|H|\?7[lh]|\?25[lh])/g;
const HARM = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]/gu;

/** The harmful characters on a terminal that has got this, and the forged lines. */
export function harmIn(shown: string): readonly string[] {
  const text = shown.replaceAll('\r\n', '\n').replaceAll(OURS, '');
  const forged = text.split(/[\r\n]/).filter((line) => line.startsWith('FORGED'));
  return [...(text.match(HARM) ?? []).filter((one) => !'\t\n\r'.includes(one)), ...forged];
}
