// The one index that a command is about: the operand behind the <url>, or --index.
import type { Reader } from '../cli/options/readers.ts';
import type { Option } from '../cli/options/spec.ts';
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
  if (operand === undefined) return line.values.of(option);
  const read = oneIndex(operand);
  if ('value' in read) return read.value;
  line.refuse(`'${operand}': ${read.is}`, `${line.title} <url> ${read.example}`);
  return undefined;
}
