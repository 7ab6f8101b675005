// Which certificates are trusted, for servers and proxies alike.
import { readNamedFile } from '../../native/named-file.ts';
import { StoreError } from '../contract/store.ts';

/** AWS_CA_BUNDLE replaces the built-in authorities, as in the AWS CLI. */
export function certificates(): Buffer | undefined {
  const path = process.env['AWS_CA_BUNDLE'];
  if (path === undefined || path === '') return undefined;
  try {
    return readNamedFile(path);
  } catch (cause) {
    throw new StoreError('refused', `cannot read the certificates that AWS_CA_BUNDLE names (${path})`, {
      cause,
    });
  }
}
