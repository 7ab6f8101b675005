// Inside of which quotes does a place in the text of a shell command stand? As much of the grammar of POSIX' shell, and of what
// bash adds, as it takes to put a value there ("Token Recognition", "Quoting"); what goes beyond that is said to be unknown.
// Pure.

/** Inside of which quotes a place stands, or in a comment; `unknown`: behind what only a shell can read. */
export type ShellPlace =
  | { readonly kind: 'plain' | 'single' | 'double' | 'comment' }
  | { readonly kind: 'unknown'; readonly behind: string };

/** What is whole in itself behind a `$`. */
const PLAIN_VARIABLE = /\{(?:[A-Za-z_]\w*|[0-9@*#?$!-])\}/y;
/** Behind one of these a word begins: blanks, ends of lines and operators. Nothing else is a blank to a shell. */
const BEFORE_WORD = /[\n\t ;&|()<>]$/;
/** In place of a character that means nothing, as a backslash stands before it. */
const QUOTED = '\\';

/** Reads the text once, as far as it is asked for. */
export class ShellText {
  readonly #text: string;
  #kind: 'plain' | 'single' | 'double' | 'comment' = 'plain';
  #behind: string | undefined;
  #at = 0;
  /** The last two characters as a shell has them: lines that a backslash joins are one. */
  #last = '';

  constructor(text: string) {
    this.#text = text;
  }

  /** Where `place` stands, which is never before one that was asked for. */
  placeAt(place: number): ShellPlace {
    while (this.#at < place && this.#behind === undefined) this.#at += this.#read();
    if (this.#behind !== undefined) return { kind: 'unknown', behind: this.#behind };
    if (this.#at > place) return { kind: 'unknown', behind: 'a backslash' };
    // It would make something else of the quotes of the value.
    const isDollar = this.#last.endsWith('$') && (this.#kind === 'plain' || this.#kind === 'double');
    return isDollar ? { kind: 'unknown', behind: '$' } : { kind: this.#kind };
  }

  /** How long what begins here is. */
  #read(): number {
    const char = this.#text[this.#at] ?? '';
    if (this.#kind === 'comment') {
      if (char === '\n') this.#note('plain', char);
      return 1;
    }
    if (this.#kind === 'single') {
      this.#note(char === "'" ? 'plain' : 'single', char);
      return 1;
    }
    if (char === '\\') return this.#readBackslash();
    this.#behind = this.#opaque(char);
    const length = this.#last.endsWith('$') && char === '{' ? this.#variableLength() : 1;
    if (char === '"') this.#note(this.#kind === 'double' ? 'plain' : 'double', char);
    else if (this.#kind === 'plain' && char === "'") this.#note('single', char);
    else if (this.#kind === 'plain' && char === '#' && this.#beginsWord()) this.#note('comment', char);
    else this.#note(this.#kind, char);
    return length;
  }

  #readBackslash(): number {
    // Both go away, and what stands on either side may be one word, or one operator.
    if (this.#text[this.#at + 1] !== '\n') this.#note(this.#kind, QUOTED);
    return 2;
  }

  #note(kind: 'plain' | 'single' | 'double' | 'comment', char: string): void {
    this.#kind = kind;
    this.#last = `${this.#last.slice(-1)}${char}`;
  }

  #beginsWord(): boolean {
    return this.#last === '' || BEFORE_WORD.test(this.#last);
  }

  /** Of a variable in braces; 0 if it is more than one. */
  #variableLength(): number {
    PLAIN_VARIABLE.lastIndex = this.#at;
    return PLAIN_VARIABLE.exec(this.#text)?.[0].length ?? 0;
  }

  /** What only a shell can read: it has quotes of its own, none at all, or computes (bash, "Shell Arithmetic"). */
  #opaque(char: string): string | undefined {
    const before = this.#last.slice(-1);
    if (char === '`') return '`';
    if (before === '$' && (char === '(' || char === '[')) return `$${char}`;
    if (before === '$' && char === '{' && this.#variableLength() === 0) return '${';
    if (this.#kind === 'double') return undefined;
    if (before === '$' && char === "'") return "$'";
    if ((char === '<' || char === '(') && before === char) return `${char}${char}`;
    // Values of an array, whose indices are computed (bash), or a command (zsh).
    if (char === '(' && before === '=') return '=(';
    // The index of an array is computed, and the right side of =~ has words of its own.
    if (char === '[' && /\w/.test(before)) return '[';
    return /[ \t\n]=/.test(this.#last) && char === '~' ? '=~' : undefined;
  }
}
