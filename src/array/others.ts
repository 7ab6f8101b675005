// Warns about stored indices outside --array: otherwise a wrong --array would hide them silently.
import type { IndexSet } from '../model/index-set.ts';
import type { Tools } from '../cli/command.ts';
import { othersThan } from './state.ts';
import type { Survey } from './survey.ts';

const SHOWN = 5;

export function sayOthers(found: Survey, set: IndexSet | undefined, { log }: Pick<Tools, 'log'>): void {
  const others = set === undefined ? [] : othersThan(found, set);
  if (others.length === 0) return;
  const shown = others.slice(0, SHOWN).join(', ');
  const more = others.length > SHOWN ? ` and ${others.length - SHOWN} more` : '';
  log.warn(`not of --array, and not counted: ${shown}${more}`);
}
