// Which certificates are trusted, of servers and proxies alike, and how a failure says that one is not.
import { readFileSync } from 'node:fs';
import { errnoOf } from '../../model/errors.ts';
import { StoreError } from '../contract/store.ts';

/** AWS_CA_BUNDLE takes the place of the built-in authorities, as in the AWS CLI. */
export function certificates(): Buffer | undefined {
  const path = process.env['AWS_CA_BUNDLE'];
  if (path === undefined || path === '') return undefined;
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new StoreError('refused', `cannot read the certificates that AWS_CA_BUNDLE names (${path})`, {
      cause,
    });
  }
}

/** Node's codes for a certificate that fails its check (tls documentation, X509 certificate error codes). */
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY|DECRYPT)|^ERR_TLS/;

/** The other side could not prove who it is. */
export function isUntrusted(error: unknown): error is Error & { readonly code: string } {
  return CERTIFICATE.test(errnoOf(error) ?? '');
}
