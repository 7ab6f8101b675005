// What is to be said of a store that is spoken to without TLS.
import type { Mistake } from '../../model/errors.ts';
import type { Place } from './environment.ts';

/** Undefined with TLS, and on this machine: there nobody else reads along. */
export function plainWarning({ server, origin }: Pick<Place, 'server' | 'origin'>): Mistake | undefined {
  if (server.isTls || isLoopback(server.host)) return undefined;
  return {
    message: `requests to ${origin} are signed, but not encrypted: others on the way can read data and session tokens`,
    hint: 'AWS_ENDPOINT_URL_S3=https://..., if the server speaks TLS',
  };
}

/** As names and addresses have it (RFC 6761, section 6.3; RFC 5735); no name is looked up. */
function isLoopback(host: string): boolean {
  return /^(.*\.)?localhost\.?$|^127\.\d+\.\d+\.\d+$|^::1$/i.test(host);
}
