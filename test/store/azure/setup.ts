// Opens the Azure driver as capture does: everything about server and credentials comes from the environment.
import { afterAll, beforeAll } from 'vitest';
import { type AzureServer, startAzureServer } from '../../azure/server.ts';
import { openStore } from '../../../src/store/open.ts';
import type { OnTry, Store } from '../../../src/store/contract/store.ts';

/** Sets the environment of this process and gives back what restores it: never the credentials of whoever runs the tests. */
export function setEnv(env: Readonly<Record<string, string>>): () => void {
  const before = { ...process.env };
  for (const name of Object.keys(process.env))
    if (/^AZURE_|^IDENTITY_|^MSI_|_proxy$/i.test(name)) delete process.env[name];
  Object.assign(process.env, env);
  return () => {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  };
}

/** Before the tests of a file: a server, and the environment that leads to it. */
export function onAzureServer(started: (server: AzureServer) => void): void {
  let server: AzureServer;
  let restore: () => void;
  beforeAll(async () => {
    server = await startAzureServer();
    restore = setEnv(server.env);
    started(server);
  });
  afterAll(async () => {
    restore();
    await server.stop();
  });
}

export function openAzure(url: string, budgetMs?: number, onTry?: OnTry): Promise<Store> {
  return openStore({ url, flags: [], unfenced: false }, { budgetMs, onTry });
}
