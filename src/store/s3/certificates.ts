// Which certificates are trusted, for servers and proxies alike, and how an untrusted certificate is recognised in an
// error.
import { errnoOf } from '../../model/errors.ts';
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

/** Node's codes for an invalid certificate (tls documentation, X509 certificate error codes). */
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY|DECRYPT)|^ERR_TLS/;

/** The other side could not prove its identity. */
export function isUntrusted(error: unknown): error is Error & { readonly code: string } {
  return CERTIFICATE.test(errnoOf(error) ?? '');
}
