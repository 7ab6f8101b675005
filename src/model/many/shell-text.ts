// Inside of which quotes does a place in the text of a shell command stand? As much of POSIX' shell grammar as it takes
// to put a value there ("Quoting", "Here-Document"); what goes beyond that is said to be unknown. Pure.

/** Inside of which quotes a place stands; `unknown`: behind what only a shell can read. */
export type ShellPlace =
  | { readonly kind: 'plain' | 'single' | 'double' }
  | { readonly kind: 'unknown'; readonly behind: string };

/** Substitutions have quotes of their own, and here-documents none at all. */
const OPAQUE = /\$\(|`|<<|\$'|\$\{(?![A-Za-z_]\w*\}|[0-9@*#?$!-]\})/y;

/** Reads the text once, as far as it is asked for. */
export class ShellText {
  readonly #text: string;
  #quotes: 'plain' | 'single' | 'double' = 'plain';
  #behind: string | undefined;
  #isComment = false;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Where `place` stands, which is never before one that was asked for. */
  placeAt(place: number): ShellPlace {
    while (this.#at < place && this.#behind === undefined) this.#at += this.#read();
    if (this.#behind !== undefined) return { kind: 'unknown', behind: this.#behind };
    return this.#at > place ? { kind: 'unknown', behind: 'a backslash' } : { kind: this.#quotes };
  }

  /** How long what begins here is. */
  #read(): number {
    const char = this.#text[this.#at] ?? '';
    if (this.#isComment) this.#isComment = char !== '\n';
    else if (this.#quotes === 'single') this.#quotes = char === "'" ? 'plain' : 'single';
    else {
      this.#behind = this.#opaque();
      if (char === '\\') return 2;
      if (char === '"') this.#quotes = this.#quotes === 'double' ? 'plain' : 'double';
      else if (this.#quotes === 'plain') this.#readPlain(char);
    }
    return 1;
  }

  #readPlain(char: string): void {
    if (char === "'") this.#quotes = 'single';
    // Only at the beginning of a word.
    if (char === '#') this.#isComment = /^$|[\s;&|()]/.test(this.#text[this.#at - 1] ?? '');
  }

  #opaque(): string | undefined {
    OPAQUE.lastIndex = this.#at;
    const found = OPAQUE.exec(this.#text)?.[0];
    const isText = this.#quotes === 'double' && (found === "$'" || found === '<<');
    return isText ? undefined : found;
  }
}
