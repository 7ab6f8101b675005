// Picks the driver for a store's URL. Drivers are loaded on first use: a task with a file store must not pay
// for the AWS SDK at its start.
import type { StoreSettings } from '../model/format/settings.ts';
import { StoreError, type OnTry, type Store } from './contract/store.ts';

/** An outage of this length costs nothing but time. */
const BUDGET_MS = 60_000;

export interface StoreTuning {
  /** How long one operation is tried again while its failures are transient, default 60 s. */
  readonly budgetMs?: number;
  /** Told how each try of each operation went (`PutObject`, `put`, ...); undefined is a success. */
  readonly onTry?: OnTry;
}

/**
 * Opens the store that `settings.url` names. Nothing is sent yet: a wrong endpoint or missing right shows in
 * the first operation. Throws a StoreError `refused` for a URL of neither kind.
 */
export async function openStore(settings: StoreSettings, tuning: StoreTuning = {}): Promise<Store> {
  const budgetMs = tuning.budgetMs ?? BUDGET_MS;
  switch (settings.url.split('://')[0]) {
    case 's3': {
      // The SDK's warning about old Node versions would go to the task's terminal.
      process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
      const { openS3Store } = await import('./s3/s3.ts');
      return openS3Store(settings, budgetMs, tuning.onTry);
    }
    case 'file': {
      const { openFileStore } = await import('./file/file.ts');
      return openFileStore(settings, budgetMs, tuning.onTry);
    }
    default:
      throw new StoreError('refused', `cannot open the store ${settings.url}: no such kind of store`, {
        hint: 'use s3://bucket/prefix or file:///directory',
      });
  }
}
