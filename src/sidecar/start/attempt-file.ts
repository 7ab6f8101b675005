// What a restarted sidecar of the same attempt must know and cannot find out: which files were there before
// the task started. Written once, before the task starts, in .capture/ of the work directory.
import fs from 'node:fs';
import { z } from 'zod';
import type { Fingerprint } from '../../core/fingerprint.ts';
import { OWN_DIR } from '../../core/manifest.ts';
import { encodePath, type RelPath } from '../../core/path.ts';
import { reached } from '../../native/failpoint.ts';
import type { Baseline } from '../context.ts';

const schema = z.object({
  attempt: z.int(),
  runToken: z.string(),
  startedAt: z.string(),
  inherited: z.array(
    z.tuple([
      z.string(),
      z.object({
        dev: z.string(),
        ino: z.string(),
        size: z.number(),
        mtimeNs: z.string(),
        ctimeNs: z.string(),
      }),
    ]),
  ),
  baselines: z.array(z.tuple([z.string(), z.object({ md5: z.string(), size: z.number() })])),
});

export interface AttemptFile {
  readonly attempt: number;
  readonly runToken: string;
  readonly startedAt: string;
  readonly inherited: ReadonlyMap<RelPath, Fingerprint>;
  readonly baselines: ReadonlyMap<RelPath, Baseline>;
}

export function writeAttemptFile(workdir: string, facts: AttemptFile): void {
  const path = pathIn(workdir);
  const inherited = [...facts.inherited].map(([name, { dev, ino, size, mtimeNs, ctimeNs }]) => [
    name,
    { dev, ino, size, mtimeNs, ctimeNs },
  ]);
  const text = JSON.stringify({ ...facts, inherited, baselines: [...facts.baselines] });
  fs.writeFileSync(encodePath(`${path}.new`), text, { mode: 0o600 });
  reached('attempt-file.before-rename');
  fs.renameSync(encodePath(`${path}.new`), encodePath(path));
  reached('attempt-file.written');
}

/** Undefined when there is none, or it is of another attempt. */
export function readAttemptFile(workdir: string, attempt: number): AttemptFile | undefined {
  const file = readLastAttemptFile(workdir);
  return file?.attempt === attempt ? file : undefined;
}

/** Of the last attempt whose task was started in this work directory; undefined when there is none. */
export function readLastAttemptFile(workdir: string): AttemptFile | undefined {
  let text: string;
  try {
    text = fs.readFileSync(encodePath(pathIn(workdir)), 'utf8');
  } catch {
    return undefined;
  }
  const parsed = schema.safeParse(parseJson(text));
  if (!parsed.success) return undefined;
  return {
    ...parsed.data,
    inherited: new Map(parsed.data.inherited),
    baselines: new Map(parsed.data.baselines),
  };
}

/** A file that a power failure cut short is none. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pathIn(workdir: string): string {
  return `${workdir}/${OWN_DIR}/attempt.json`;
}
