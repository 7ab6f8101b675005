// The contents of files of simulated programs. Each content says what it is, so that the oracle knows a state by its
// bytes, wherever it finds them.

export interface State {
  /** The file, without the number that its name may have. */
  readonly file: string;
  /** From 1 on: the states of one round belong together. */
  readonly round: number;
  /** The number of this close of the file in its round, from 1 on. */
  readonly version: number;
  readonly versions: number;
  /** Unique, and in the order of writes. */
  readonly serial: number;
}

const WHOLE = /^<(\S+) r(\d+) v(\d+)\/(\d+) s(\d+) n(\d+) (x*)>$/;

export function contentOf(state: State, fillBytes: number): string {
  const { file, round, version, versions, serial } = state;
  return `<${file} r${round} v${version}/${versions} s${serial} n${fillBytes} ${'x'.repeat(fillBytes)}>`;
}

/** The rounds of which the content has an entry: each was appended. */
export function roundsIn(content: string): ReadonlySet<number> {
  const entries = content.split(/(?=<)/).flatMap((entry) => stateIn(entry) ?? []);
  return new Set(entries.map(({ round }) => round));
}

/** The state in a content; the last one if several were appended. Undefined if there is none, or only a part of one. */
export function stateIn(content: string): State | undefined {
  const match = WHOLE.exec(content.slice(content.lastIndexOf('<')));
  if (match === null) return undefined;
  const [, file = '', round, version, versions, serial, fill, filled = ''] = match;
  if (Number(fill) !== filled.length) return undefined;
  return {
    file,
    round: Number(round),
    version: Number(version),
    versions: Number(versions),
    serial: Number(serial),
  };
}
