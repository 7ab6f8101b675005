// The first line that the user sees: the task, the store, and what is captured. Pure.
import { showPath } from '../path.ts';
import type { Settings } from './settings.ts';

/** Patterns of one kind that are listed; a manifest file may hold thousands. */
const SHOWN = 5;

/**
 * `task lmp, index 3, attempt 2 -> s3://b/lj; results: r.dat; checkpoints: k.chk; in /dev/shm/x; reclaim: auto`.
 * `attempt` is undefined if none has been claimed. `newStore` says that the store did not exist before.
 */
export function firstLine(settings: Settings, attempt: number | undefined, newStore?: string): string {
  const { identity, manifest } = settings;
  const who = [
    `task ${showPath(identity.taskName)}`,
    ...(identity.index === undefined ? [] : [`index ${identity.index}`]),
    ...(attempt === undefined ? [] : [`attempt ${attempt}`]),
    ...(identity.runId === undefined ? [] : [`run ${showPath(identity.runId)}`]),
  ];
  const declared = [
    ...patterns('results', manifest.results),
    ...patterns('checkpoints', manifest.checkpoints),
    ...patterns('inputs', manifest.inputs),
    ...patterns('companions', manifest.companions),
    ...patterns('exclude', manifest.exclude),
  ];
  return [
    `${who.join(', ')} -> ${showPath(settings.to.url)}${newStore === undefined ? '' : ` (${newStore})`}`,
    ...(declared.length === 0 ? ['nothing declared'] : declared),
    `in ${showPath(settings.workdir)}`,
    `reclaim: ${settings.reclaim}`,
  ].join('; ');
}

function patterns(name: string, list: readonly string[]): readonly string[] {
  if (list.length === 0) return [];
  const shown = list.slice(0, SHOWN).map(showPath).join(', ');
  return [`${name}: ${shown}${list.length > SHOWN ? ` and ${list.length - SHOWN} more` : ''}`];
}
