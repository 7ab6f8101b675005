// The one index that a command is about: the operand behind the <url>, or --index.
import type { Reader } from '../cli/options/readers.ts';
import type { Option } from '../cli/options/spec.ts';
import { showPath } from '../model/path.ts';
import { INDEX } from '../scheduler/identity.ts';
import { type Line, refuseOperands } from './command.ts';

export const oneIndex: Reader<string> = (text) =>
  INDEX.test(text)
    ? { value: text }
    : { is: 'not an index: 1 to 64 letters, digits, _ and -', example: '17' };

/** Undefined if none is named, or none that is right: that has been refused, as is every other operand. */
export function readIndex(
  line: Line,
  option: Option & { readonly read: Reader<string> },
): string | undefined {
  const [operand, ...more] = line.operands;
  refuseOperands(line, more);
  return operand === undefined ? line.values.of(option) : indexOperand(line, operand);
}

/** The index that an operand is; undefined if it is none: that has been refused. */
export function indexOperand({ title, refuse }: Line, operand: string): string | undefined {
  const read = oneIndex(operand);
  if ('value' in read) return read.value;
  refuse(`'${showPath(operand)}': ${read.is}`, `${title} <url> ${read.example}`);
  return undefined;
}
