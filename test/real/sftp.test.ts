// The driver for SFTP on a real sshd: the contract of a store, and connections that break at every step.
import { storeContract } from '../store/contract.ts';
import { openStore } from '../../src/store/open.ts';
import { openSftpServer } from './sftp-server.ts';

storeContract('an SFTP store', async (onTry) => {
  const server = await openSftpServer();
  const { HOME } = process.env;
  process.env['HOME'] = server.home;
  delete process.env['SSH_AUTH_SOCK'];
  const store = await openStore({ url: server.url('contract'), flags: [], unfenced: false }, { onTry });
  return {
    store,
    cleanup: async () => {
      await store.close();
      process.env['HOME'] = HOME;
      await server.close();
    },
  };
});
