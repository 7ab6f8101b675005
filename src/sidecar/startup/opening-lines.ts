// The first lines for the user: who this is and what the task resumes from.
import { describeFiles, generationBytes } from '../../model/checkpoint/generation-words.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import { firstLine } from '../../model/format/first-line.ts';
import type { Generation } from '../../model/format/records.ts';
import { formatAge } from '../../model/units.ts';
import type { Needs } from '../run/context.ts';
import { sayNothingRestored } from './other-names.ts';
import type { Begun } from './start.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'scope' | 'manifest' | 'store' | 'log' | 'attempt' | 'history' | 'now'>;

/** Who this is, and what the task resumes from. The task may start now. */
export async function sayOpening(
  context: Uses,
  { storeWasMissing, restored: { generation, files } }: Pick<Begun, 'storeWasMissing' | 'restored'>,
  signal: AbortSignal,
): Promise<void> {
  sayStart(context, storeWasMissing);
  if (generation !== undefined) return sayResumed(generation, files, context);
  const { restore, manifest } = context.settings;
  const { checkpoints, companions } = manifest;
  // `--no-restore`, `capture watch`, or a task that declares nothing to resume from.
  if (!restore || (checkpoints.length === 0 && companions.length === 0)) return;
  await sayNothingRestored({ ...context, signal });
}

/** Who this is. */
function sayStart({ settings, log, attempt }: Uses, storeWasMissing: boolean): void {
  const { identity, to, workdir } = settings;
  const { taskName: task, runId: run } = identity;
  const note = storeWasMissing ? 'a new directory' : undefined;
  log.info(firstLine(settings, attempt, note), { event: 'start', task, run, to: to.url, workdir });
}

function sayResumed(generation: Generation, files: number, { log, now }: Uses): void {
  const name = generationName(generation);
  const ageMs = Math.max(0, now() - Date.parse(generation.at));
  log.info(`resumed from checkpoint ${name} (${describeFiles(generation)}, ${formatAge(ageMs)} old)`, {
    event: 'resumed',
    generation: name,
    files,
    bytes: generationBytes(generation),
    ageMs,
  });
}
