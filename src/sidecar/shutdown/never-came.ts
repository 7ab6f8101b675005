// What was declared and never came, in this run or before it: so the user learns of a mistyped name on the day that
// the task ends well, not on the day that its checkpoint is needed.
import { unmatched } from '../../model/outcome/verdict.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import type { FinishParts } from './parts.ts';

type NeverParts = Pick<FinishParts, 'context' | 'files' | 'companions'>;

export interface NeverCame {
  readonly pattern: string;
  readonly list: 'results' | 'checkpoints' | 'companions';
  /** Without a wildcard: this very file is expected. */
  readonly isName: boolean;
}

/** Patterns that no file ever matched, by option and in the user's order. */
export function neverCame({ context, files, companions }: NeverParts): readonly NeverCame[] {
  const { settings, ledger, manifest } = context;
  const lacking = (list: NeverCame['list'], paths: Iterable<RelPath>): readonly NeverCame[] =>
    unmatched(settings.manifest[list], paths).map((pattern) => ({
      pattern,
      list,
      isName: manifest.exact[list].includes(pattern),
    }));
  function* results(): Generator<RelPath> {
    yield* files.paths('result');
    yield* ledger.results.keys();
  }
  function* checkpoints(): Generator<RelPath> {
    yield* files.paths('checkpoint');
    for (const { members } of ledger.generations) for (const { path } of members) yield path;
  }
  return [
    ...lacking('results', results()),
    ...lacking('checkpoints', checkpoints()),
    ...(companions.seen === undefined ? [] : lacking('companions', companions.seen)),
  ];
}

/** After a task that ended well: one warning for all names. A glob may have no match. */
export function warnOfNames(parts: NeverParts): void {
  const names = neverCame(parts).filter(({ isName }) => isName);
  if (names.length === 0) return;
  const { log, settings } = parts.context;
  const named = names.map(({ pattern, list }) => `${showPath(pattern)} (--${list})`);
  log.warn(`declared by name and never came: ${named.join(', ')}`, {
    hint: `is the name right? it is looked for in ${showPath(settings.workdir)}`,
  });
}
