// The kinds of stores: one line for each here, all else is in the room of its driver. Drivers are loaded on first use:
// a task with a file store must not pay for what S3 needs, and the launcher, which only reads URLs, loads none.
import type { Mistake } from '../model/errors.ts';
import type { StoreSettings } from '../model/format/settings.ts';
import type { Connections } from './contract/driver.ts';
import { BUDGET_MS, StoreError, type OnTry, type Store, type StoreKind } from './contract/store.ts';
import { fileKind } from './file/url.ts';
import { S3_FLAGS, s3Kind } from './s3/url.ts';

/** By the scheme of its URLs, for those that look at URLs alone. */
const KINDS = { s3: s3Kind, file: fileKind };
const DRIVERS: Readonly<Record<keyof typeof KINDS, () => Promise<OpenDriver>>> = {
  s3: async () => (await import('./s3/s3.ts')).openS3Store,
  file: async () => (await import('./file/file.ts')).openFileStore,
};

/** Flags of the command line that one kind alone has, by name without dashes, and their help. */
export const KIND_FLAGS = { ...S3_FLAGS };

type OpenDriver = (settings: StoreSettings, budgetMs: number, tuning: StoreTuning) => Promise<Store>;

export interface StoreTuning {
  /** How long one operation is tried again while its failures are transient; ten times as long while it is busy. */
  readonly budgetMs?: number;
  /** Told how each try of each operation went; undefined is a success. */
  readonly onTry?: OnTry;
  /** Told, when the store is opened, what is allowed on the way to it, but probably not meant. */
  readonly warn?: (warning: Mistake) => void;
  /** What the stores of one process have together; a store alone has its own. */
  readonly connections?: Connections;
}

/**
 * Opens the store that `settings.url` names. Nothing is sent yet: a wrong endpoint or missing right shows in
 * the first operation. Throws a StoreError `refused` for a URL of no kind.
 */
export async function openStore(settings: StoreSettings, tuning: StoreTuning = {}): Promise<Store> {
  const [scheme = ''] = settings.url.split('://');
  if (!isKind(scheme)) {
    const forms = allKinds().map(({ form }) => form);
    throw new StoreError('refused', `cannot open the store ${settings.url}: no such kind of store`, {
      hint: `use ${forms.join(' or ')}`,
    });
  }
  const open = await DRIVERS[scheme]();
  return open(settings, tuning.budgetMs ?? BUDGET_MS, tuning);
}

/** The kind of store with URLs of this scheme, in lower case. */
export function kindOf(scheme: string): StoreKind | undefined {
  return isKind(scheme) ? KINDS[scheme] : undefined;
}

export function allKinds(): readonly StoreKind[] {
  return Object.values(KINDS);
}

function isKind(scheme: string): scheme is keyof typeof KINDS {
  return Object.hasOwn(KINDS, scheme);
}
