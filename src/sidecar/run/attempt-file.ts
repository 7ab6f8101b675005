// What a restarted sidecar of the same attempt must know and cannot find out: which files existed before the task
// started. Written before the task starts, in .capture/ of the work directory, and checked before it is believed.
import * as z from 'zod';
import type { Order } from '../../model/checkpoint/rounds.ts';
import type { Fingerprint } from '../../model/file/file-state.ts';
import {
  ATTEMPT_FILE,
  ENDED_FILE,
  FRESH_FILE,
  OWN_DIR,
  SAVED_FILE,
  type SavedText,
} from '../../model/file/manifest.ts';
import { type Lacking, lackingSchema } from '../../model/format/records.ts';
import { keyIndex, type Settings } from '../../model/format/settings.ts';
import type { RelPath } from '../../model/path.ts';
import { reached } from '../../native/failpoint.ts';
import {
  makePrivateDir,
  readPrivateFile,
  removePrivateFile,
  replacePrivateFile,
} from '../../native/private-dir.ts';
import type { Baseline } from '../../model/file/baseline.ts';

/** The order in which the task closes its checkpoint files, once it is certain. */
const ORDER_FILE = 'order';

const fingerprints = z.array(
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
);

/** What was restored before the task starts, for the first `capture watch` of the attempt. */
const restoredFacts = z.object({
  /** `<attempt>-<generation>`; '' when there was none. */
  generation: z.string(),
  /** Its members in the state in which they were placed. */
  members: fingerprints,
  judgements: z.array(z.object({ generation: z.string(), good: z.boolean() })),
});
export type RestoredFacts = Readonly<z.infer<typeof restoredFacts>>;

/** Which `capture watch` may continue an attempt that has no launcher. */
const handover = z.object({
  /** Boot id of the kernel: after a restart of the machine every process of the task is dead. */
  boot: z.string(),
  who: z.object({ to: z.string(), taskName: z.string(), index: z.string(), run: z.string() }),
  /** Removed once the first `capture watch` has taken over. */
  restored: restoredFacts.optional(),
});
export type Handover = Readonly<z.infer<typeof handover>>;

/** What the attempt declared, for whoever finds the directory after all its processes were killed. */
const manifest = z.object({
  results: z.array(z.string()),
  checkpoints: z.array(z.string()),
  inputs: z.array(z.string()),
  companions: z.array(z.string()),
  exclude: z.array(z.string()),
});

const baseline = z.object({
  kind: z.enum(['file', 'link']),
  md5: z.string(),
  size: z.number(),
  mode: z.number(),
});

/** A file in the work directory: the field names must not change. */
const schema = z.object({
  attempt: z.int().positive(),
  runToken: z.string(),
  startedAt: z.string(),
  inherited: fingerprints,
  baselines: z.array(z.tuple([z.string(), baseline])),
  shut: fingerprints.optional(),
  lacking: z.array(lackingSchema).optional(),
  manifest: manifest.optional(),
  alone: handover.optional(),
  sealKey: z.string().optional(),
});

/** The settings that the file's path follows from. */
export type AttemptPlace = Pick<Settings, 'workdir' | 'sharedWorkdir' | 'identity'>;

export interface AttemptFile {
  readonly attempt: number;
  readonly runToken: string;
  readonly startedAt: string;
  readonly inherited: ReadonlyMap<RelPath, Fingerprint>;
  /** See the context. */
  readonly shut: ReadonlyMap<RelPath, Fingerprint>;
  readonly baselines: ReadonlyMap<RelPath, Baseline>;
  readonly lacking?: readonly Lacking[] | undefined;
  readonly manifest?: Readonly<z.infer<typeof manifest>> | undefined;
  /** The key of the records of a sealed index, base64: a replacement needs no identity. */
  readonly sealKey?: string | undefined;
  /** `alone` in the file. Undefined below a launcher, which itself tells the next sidecar which attempt to continue. */
  readonly handover?: Handover | undefined;
}

/** The same facts, in the form that is written. */
export type AttemptFacts = Omit<AttemptFile, 'inherited' | 'baselines' | 'manifest'> & {
  readonly inherited: Iterable<readonly [RelPath, Fingerprint]>;
  readonly baselines: Iterable<readonly [RelPath, Baseline]>;
};

export function writeAttemptFile(
  settings: AttemptPlace & Pick<Settings, 'manifest'>,
  facts: AttemptFacts,
): void {
  const { attempt, runToken, startedAt, shut, baselines, lacking, sealKey, handover: alone } = facts;
  const text = JSON.stringify({
    attempt,
    runToken,
    startedAt,
    inherited: [...facts.inherited].map(([name, fingerprint]) => [name, plain(fingerprint)]),
    shut: shut.size === 0 ? undefined : [...shut],
    baselines: [...baselines],
    lacking,
    manifest: settings.manifest,
    alone,
    sealKey,
  });
  const dir = dirOf(settings);
  removePrivateFile(dir, savedNameOf(settings));
  replacePrivateFile(dir, nameOf(settings), text, () => reached('attempt-file.before-rename'));
  removePrivateFile(dir, FRESH_FILE);
  reached('attempt-file.written');
}

const orderSchema = z.object({
  attempt: z.int().positive(),
  order: z.object({
    ids: z.array(z.string()).min(1),
    times: z.int().positive(),
    insideMs: z.number(),
    betweenMs: z.number(),
  }),
});

/** For a sidecar that takes this attempt over; undefined: no order is certain any more. A failure only costs sets. */
export function writeOrder(place: AttemptPlace, attempt: number, order: Order | undefined): void {
  const name = orderNameOf(place);
  try {
    removePrivateFile(dirOf(place), name);
    if (order === undefined) return;
    replacePrivateFile(dirOf(place), name, JSON.stringify({ attempt, order }));
  } catch {
    // No space, or the task has removed its work directory.
  }
}

/** Undefined if no order is certain, or the file is another attempt's. */
export function readOrder(place: AttemptPlace, attempt: number): Order | undefined {
  const parsed = orderSchema.safeParse(parseJson(readPrivateFile(dirOf(place), orderNameOf(place))));
  return parsed.success && parsed.data.attempt === attempt ? parsed.data.order : undefined;
}

/**
 * The task has ended, and all of its processes with it. One that carries its token and still runs is not the task's: the
 * task has only submitted it.
 */
export function markEnded(place: AttemptPlace, runToken: string): void {
  writeMark(place, ENDED_FILE, runToken);
}

export function isMarkedEnded(place: AttemptPlace, runToken: string): boolean {
  return readPrivateFile(dirOf(place), ENDED_FILE) === runToken;
}

/**
 * Everything that the attempt closed is stored, and its end is recorded, or another attempt has taken over: whoever owns
 * the work directory may remove it.
 */
export function markSaved(place: AttemptPlace, text: SavedText): void {
  writeMark(place, savedNameOf(place), text);
}

function writeMark(place: AttemptPlace, name: string, text: string): void {
  try {
    // The task may have removed it.
    makePrivateDir(dirOf(place));
    replacePrivateFile(dirOf(place), name, text);
  } catch {
    // No space, or the task has removed its work directory: then the mark is missing, which costs no file.
  }
}

/** Only these fields: a file state may have more. */
export function plain({ dev, ino, size, mtimeNs, ctimeNs }: Fingerprint): Fingerprint {
  return { dev, ino, size, mtimeNs, ctimeNs };
}

/** Undefined if there is no file, or it is another attempt's. */
export function readAttemptFile(settings: AttemptPlace, attempt: number): AttemptFile | undefined {
  const file = readLastAttemptFile(settings);
  return file?.attempt === attempt ? file : undefined;
}

/** The file of the last attempt whose task was started in this work directory; undefined if there is none. */
export function readLastAttemptFile(settings: AttemptPlace): AttemptFile | undefined {
  const parsed = schema.safeParse(parseJson(readPrivateFile(dirOf(settings), nameOf(settings))));
  if (!parsed.success) return undefined;
  const { alone, inherited, shut, baselines, ...facts } = parsed.data;
  return {
    ...facts,
    inherited: new Map(inherited),
    shut: new Map(shut),
    baselines: new Map(baselines),
    handover: alone,
  };
}

/** A file that a power failure cut short counts as missing. */
function parseJson(text = ''): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function dirOf({ workdir }: AttemptPlace): string {
  return `${workdir}/${OWN_DIR}`;
}

/** In a shared work directory each task of each index has a file of its own. */
function nameOf({ sharedWorkdir, identity }: AttemptPlace): string {
  if (!sharedWorkdir) return ATTEMPT_FILE;
  return `attempt-${identity.taskName}.${keyIndex(identity)}.json`;
}

function orderNameOf(place: AttemptPlace): string {
  return `${nameOf(place)}.${ORDER_FILE}`;
}

/** In a shared work directory it is unknown whether all its tasks have ended. */
function savedNameOf({ sharedWorkdir, identity }: AttemptPlace): string {
  const whose = sharedWorkdir ? `-${identity.taskName}.${keyIndex(identity)}` : '';
  return `${SAVED_FILE}${whose}`;
}
