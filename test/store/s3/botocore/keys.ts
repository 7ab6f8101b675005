// Keys with all that a path, a query, a header, a signature, XML, or a program that tidies up paths gives a meaning of its
// own. Behind the prefix `run7/`.

/** With the prefix as long as a key may be (1,024 bytes). */
const LONGEST = `${'ü'.repeat(500)}/${'x'.repeat(18)}`;

export const KEYS: readonly string[] = [
  'plain.dat',
  'a b  c ',
  ' leading',
  'a+b',
  '100%',
  'a%2Fb%20c%',
  '%25%2525',
  'a//b',
  '/a/',
  '//',
  '.',
  '..',
  '../x',
  'a/../b',
  'a/./b/.',
  '~a-b_c.d~',
  "it's '()*!",
  'what?now',
  'a?b=c&d=e',
  '&=',
  '#fragment',
  'a;b:c@d,e$f',
  '<a>&amp;"b"</a>',
  '\\a|b^c`d{e}[f]',
  'é/e\u0301/\uFB01',
  '日本語/العربية',
  '\u{1F600}\u{1F469}\u200D\u{1F52C}',
  'tab\there',
  'line\nfeed\r',
  '\u0001\u001F\u007F',
  LONGEST,
];
