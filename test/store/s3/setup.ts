// Opens the S3 driver as capture does: everything about server and credentials comes from the environment.
import { beforeEach } from 'vitest';
import { openStore } from '../../../src/store/open.ts';
import type { OnTry, Store } from '../../../src/store/contract/store.ts';
import { startS3Server, type S3Server } from '../../s3-server/server.ts';

const CLEARED = new Set([
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'AWS_CA_BUNDLE',
]);

/** Sets the environment of this process and gives back what restores it. */
export function setEnv(env: Readonly<Record<string, string>>): () => void {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) {
    if (name.startsWith('AWS_') || CLEARED.has(name)) delete process.env[name];
  }
  // Never the files of whoever runs the tests.
  Object.assign(
    process.env,
    {
      AWS_CONFIG_FILE: '/dev/null',
      AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    env,
  );
  return () => {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  };
}

export function openS3(url: string, budgetMs?: number, onTry?: OnTry): Promise<Store> {
  return openStore({ url, flags: ['path-style'], unfenced: false }, { budgetMs, onTry });
}

/** A server of its own for each test, and a store at s3://lab/run7: `take` gets them before each test. */
export function eachOnItsServer(budgetMs: number, take: (server: S3Server, store: Store) => void): void {
  beforeEach(async () => {
    const server = await startS3Server();
    const restore = setEnv(server.env);
    const store = await openS3('s3://lab/run7', budgetMs);
    take(server, store);
    return async () => {
      await store.close();
      restore();
      await server.stop();
    };
  });
}
