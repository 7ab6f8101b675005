// Why a declared file is not stored, in words for the user.
import { isSettled } from '../../model/file/decide.ts';
import type { FileState } from '../../model/file/file-state.ts';

/** `otherwise`: why it is not stored although nothing stands in its way. */
export function whyLeft(fileState: FileState, otherwise = 'no time was left'): string | undefined {
  if (fileState.left !== undefined) return fileState.left;
  if (fileState.blocked) return 'another process still has it open for writing';
  if (fileState.tornTries > 0) return 'it changed each time it was read';
  return isSettled(fileState) ? undefined : otherwise;
}
