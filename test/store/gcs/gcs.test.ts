import { openGcs, setEnv } from './setup.ts';
import { startGcsServer } from '../../gcs-server/server.ts';
import { storeContract } from '../contract.ts';

storeContract(
  'Cloud Storage',
  async (onTry) => {
    const server = await startGcsServer();
    server.pageSize = 3;
    server.rewriteCalls = 2;
    const restore = setEnv(server.env);
    const store = await openGcs('gs://lab/run7', 1000, onTry);
    const cleanup = async (): Promise<void> => {
      await store.close();
      restore();
      await server.stop();
    };
    return { store, cleanup };
  },
  { sweepsNothing: true },
);
