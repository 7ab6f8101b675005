// Which quotes surround a place in the text of a shell command? This implements as much of the grammar of POSIX sh
// ("Token Recognition", "Quoting") and of bash's extensions as inserting a value needs; anything beyond is `unknown`.
// Pure.

/** The quotes around a place, or a comment; `unknown`: after something that only a shell can parse. */
export type ShellPlace =
  | { readonly kind: 'plain' | 'single' | 'double' | 'comment' }
  | { readonly kind: 'unknown'; readonly behind: string };

/** A complete variable after a `$`. */
const PLAIN_VARIABLE = /\{(?:[A-Za-z_]\w*|[0-9@*#?$!-])\}/y;
/** A word begins after one of these: blanks, line ends and operators. To a shell, nothing else is a blank. */
const BEFORE_WORD = /[\n\t ;&|()<>]$/;
/** Stands for a character that a backslash has quoted. */
const QUOTED = '\\';

/** Reads the text once, up to the places that are asked for. */
export class ShellText {
  readonly #text: string;
  #kind: 'plain' | 'single' | 'double' | 'comment' = 'plain';
  #behind: string | undefined;
  #at = 0;
  /** The last two characters as a shell sees them: a backslash joins two lines into one. */
  #last = '';

  constructor(text: string) {
    this.#text = text;
  }

  /** The quotes at `place`, which must not be before an earlier call's place. */
  placeAt(place: number): ShellPlace {
    while (this.#at < place && this.#behind === undefined) this.#at += this.#read();
    if (this.#behind !== undefined) return { kind: 'unknown', behind: this.#behind };
    if (this.#at > place) return { kind: 'unknown', behind: 'a backslash' };
    // The `$` would change the meaning of the value's quotes.
    const isDollar = this.#last.endsWith('$') && (this.#kind === 'plain' || this.#kind === 'double');
    return isDollar ? { kind: 'unknown', behind: '$' } : { kind: this.#kind };
  }

  /** The length of what begins here. */
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
    // A backslash and its newline vanish: the text on both sides may be one word, or one operator.
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

  /** The length of a variable in braces; 0 if it is more than a plain variable. */
  #variableLength(): number {
    PLAIN_VARIABLE.lastIndex = this.#at;
    return PLAIN_VARIABLE.exec(this.#text)?.[0].length ?? 0;
  }

  /**
   * Syntax that only a shell can parse: it has its own quoting, none at all, or is computed (bash, "Shell
   * Arithmetic").
   */
  #opaque(char: string): string | undefined {
    const before = this.#last.slice(-1);
    if (char === '`') return '`';
    if (before === '$' && (char === '(' || char === '[')) return `$${char}`;
    if (before === '$' && char === '{' && this.#variableLength() === 0) return '${';
    if (this.#kind === 'double') return undefined;
    if (before === '$' && char === "'") return "$'";
    if ((char === '<' || char === '(') && before === char) return `${char}${char}`;
    // The values of an array, with computed indices (bash), or a command (zsh).
    if (char === '(' && before === '=') return '=(';
    // An array index is computed, and the right side of =~ has its own words.
    if (char === '[' && /\w/.test(before)) return '[';
    return /[ \t\n]=/.test(this.#last) && char === '~' ? '=~' : undefined;
  }
}
