// Opens the driver for Cloud Storage as capture does: everything about server and credentials comes from the environment.
import { beforeEach } from 'vitest';
import type { OnTry, Store } from '../../../src/store/contract/store.ts';
import { openStore } from '../../../src/store/open.ts';
import { type GcsServer, startGcsServer } from '../../gcs-server/server.ts';

const CLEARED =
  /^(GOOGLE_|GCE_|CLOUDSDK_|STORAGE_EMULATOR_HOST|METADATA_SERVER_DETECTION|https?_proxy$|no_proxy$)/i;

/** Sets the environment of this process and gives back what restores it. */
export function setEnv(env: Readonly<Record<string, string>>): () => void {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (CLEARED.test(name)) delete process.env[name];
  // Never the credentials of whoever runs the tests.
  Object.assign(process.env, { CLOUDSDK_CONFIG: '/dev/null/none', METADATA_SERVER_DETECTION: 'none' }, env);
  return () => {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  };
}

export function openGcs(url: string, budgetMs?: number, onTry?: OnTry): Promise<Store> {
  return openStore({ url, flags: [], unfenced: false }, { budgetMs, onTry });
}

/** A server of its own for each test, and a store at gs://lab/run7: `take` gets them before each test. */
export function eachOnItsServer(budgetMs: number, take: (server: GcsServer, store: Store) => void): void {
  beforeEach(async () => {
    const server = await startGcsServer();
    const restore = setEnv(server.env);
    const store = await openGcs('gs://lab/run7', budgetMs);
    take(server, store);
    return async () => {
      await store.close();
      restore();
      await server.stop();
    };
  });
}
