// What files of simulated programs hold: each content says what it is, so that the oracle knows a state by its bytes,
// wherever it meets it.

export interface State {
  /** The file that it is a state of, without what numbers do to its name. */
  readonly file: string;
  /** From 1 on: states of one round belong together. */
  readonly round: number;
  /** The close of this file in its round, from 1 on, of so many. */
  readonly version: number;
  readonly versions: number;
  /** Unique, in the order in which programs wrote. */
  readonly serial: number;
}

const WHOLE = /^<(\S+) r(\d+) v(\d+)\/(\d+) s(\d+) n(\d+) (x*)>$/;

export function contentOf(state: State, fillBytes: number): string {
  const { file, round, version, versions, serial } = state;
  return `<${file} r${round} v${version}/${versions} s${serial} n${fillBytes} ${'x'.repeat(fillBytes)}>`;
}

/** Of several that were appended one after the other: the last. Undefined for what is none, or a part of one. */
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
