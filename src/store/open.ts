// The kinds of stores, with one line for each. Everything else is in the driver's own folder. Drivers are loaded on
// first use: a task with a file store must not load what S3 needs, and the launcher only parses URLs and loads none.
import type { Mistake } from '../model/errors.ts';
import type { StoreSettings } from '../model/format/settings.ts';
import type { Connections } from './contract/driver.ts';
import {
  BUDGET_MS,
  type KindOption,
  StoreError,
  type OnTry,
  type Store,
  type StoreKind,
} from './contract/store.ts';
import { azureKind } from './azure/url.ts';
import { fileKind } from './file/url.ts';
import { gcsKind } from './gcs/url.ts';
import { S3_OPTIONS, s3Kind } from './s3/url.ts';
import { sftpKind } from './sftp/url.ts';

/** By the scheme of their URLs, for code that only parses URLs. */
const KINDS = { s3: s3Kind, gs: gcsKind, az: azureKind, sftp: sftpKind, file: fileKind };
const DRIVERS: Readonly<Record<keyof typeof KINDS, () => Promise<OpenDriver>>> = {
  s3: async () => (await import('./s3/s3.ts')).openS3Store,
  gs: async () => (await import('./gcs/gcs.ts')).openGcsStore,
  az: async () => (await import('./azure/azure.ts')).openAzureStore,
  sftp: async () => (await import('./sftp/sftp.ts')).openSftpStore,
  file: async () => (await import('./file/file.ts')).openFileStore,
};

/** Command line options that only one kind has, by name without dashes. */
export const KIND_OPTIONS = { ...S3_OPTIONS };

/** Whether settings can have this flag: `path-style`, or `sse=kms`. */
export function isKindFlag(flag: string): boolean {
  const [name = '', value] = flag.split(/=(.*)/s, 2);
  const options: Readonly<Record<string, KindOption>> = KIND_OPTIONS;
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (option?.argument === undefined) return option !== undefined && value === undefined;
  return value !== undefined && option.whyNot?.(value) === undefined;
}

type OpenDriver = (settings: StoreSettings, budgetMs: number, tuning: StoreTuning) => Promise<Store>;

export type { KindOption };

export interface StoreTuning {
  /** How long one operation is retried while its failures are transient; ten times as long while the server is busy. */
  readonly budgetMs?: number;
  /** Called with the result of each try of each operation; undefined is a success. */
  readonly onTry?: OnTry;
  /** Called at the opening with settings that are allowed, but probably a mistake. */
  readonly warn?: (warning: Mistake) => void;
  /** What the stores of one process share. By default a store has its own. */
  readonly connections?: Connections;
}

/**
 * Opens the store that `settings.url` names. It sends nothing yet: the first operation shows a wrong endpoint or
 * missing right. Throws a StoreError `refused` for a URL of no kind.
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

/** The kind of store for this scheme, which is in lower case. */
export function kindOf(scheme: string): StoreKind | undefined {
  return isKind(scheme) ? KINDS[scheme] : undefined;
}

export function allKinds(): readonly StoreKind[] {
  return Object.values(KINDS);
}

function isKind(scheme: string): scheme is keyof typeof KINDS {
  return Object.hasOwn(KINDS, scheme);
}
