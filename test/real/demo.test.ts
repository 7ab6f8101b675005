// The demo, and capture doctor, on each kind of store that is reached over a network.
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startAzureServer } from '../azure/server.ts';
import { openPlace, type Place } from '../e2e/support.ts';
import { startGcsServer } from '../gcs-server/server.ts';
import { realStore } from './bucket.ts';
import { openSftpServer } from './sftp-server.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DEMO = path.join(ROOT, 'examples/demo/demo.sh');
const BIN = path.join(ROOT, 'bin/capture');

interface Store {
  readonly url: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stop: () => Promise<void>;
}

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  Ceph: async () => {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('AWS_')));
    return { url: `${realStore().url}/demo`, env, stop: async () => undefined };
  },
  'Google Cloud Storage': async () => {
    const server = await startGcsServer();
    return { url: 'gs://lab/demo', env: server.env, stop: () => server.stop() };
  },
  'Azure Blob Storage': async () => {
    const server = await startAzureServer();
    return { url: `${server.url}/demo`, env: server.env, stop: () => server.stop() };
  },
  'a server with SSH': async () => {
    const server = await openSftpServer();
    return { url: server.url('demo'), env: { HOME: server.home }, stop: () => server.close() };
  },
};

it.each(Object.entries(STORES))(
  'the demo runs on %s, and capture doctor finds nothing wrong',
  async (_, open) => {
    const store = await open();
    try {
      const demo = place.exec([DEMO, store.url], store.env);
      expect(await demo.status, demo.stderr() + demo.stdout()).toBe(0);
      expect(demo.stdout()).toMatch(/^heat: resumes from heat\.chk/m);
      expect(demo.stdout()).toMatch(/^identical: final\.dat$/m);
      const doctor = place.exec([BIN, 'doctor', store.url], store.env);
      expect(await doctor.status, doctor.stdout() + doctor.stderr()).toBe(0);
      expect(doctor.stdout()).toMatch(/ 0 failures/);
    } finally {
      await store.stop();
    }
  },
);
