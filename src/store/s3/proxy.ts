// Which proxy leads to a host: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say. Node 20 reads none of them. It
// must never name a proxy for a host that NO_PROXY exempts.
import net from 'node:net';
import { StoreError } from '../contract/store.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy for a host, or undefined to go straight. Lower-case names win, as in curl. NO_PROXY lists hosts,
 * `.domains` (a bare domain covers its subdomains too), `host:port` or `*`, separated by commas.
 */
export function proxyFor(
  target: { protocol: string; host: string; port: number },
  env: Environment,
): URL | undefined {
  const name = target.protocol === 'https:' ? 'https_proxy' : 'http_proxy';
  const address = env[name] ?? env[name.toUpperCase()];
  if (address === undefined || address === '') return undefined;
  const exempt = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  if (exempt.some((entry) => covers(entry.toLowerCase(), target))) return undefined;
  const url = address.includes('://') ? address : `http://${address}`;
  if (URL.canParse(url)) return new URL(url);
  throw new StoreError('refused', `${name.toUpperCase()} is no address of a proxy`, {
    hint: 'write http://host:port',
  });
}

function covers(entry: string, target: { readonly host: string; readonly port: number }): boolean {
  if (entry === '*') return true;
  // An IPv6 address stands alone, or in brackets with a port.
  const [, address, domain = address ?? entry, port] = net.isIPv6(entry)
    ? [entry, entry]
    : (/^(?:\[(.*)\]|\*?\.?(.*?))(?::(\d+))?$/.exec(entry) ?? []);
  if (port !== undefined && Number(port) !== target.port) return false;
  const host = target.host.toLowerCase();
  return host === domain || host.endsWith(`.${domain}`);
}

/** `Proxy-Authorization` for a proxy URL that carries a user and password. */
export function proxyHeaders(proxy: URL): Record<string, string> {
  if (proxy.username === '') return {};
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(user).toString('base64')}` };
}

/** The host of an address, without the brackets of IPv6, as sockets want it. */
export function hostOf(url: URL): string {
  return url.hostname.replaceAll(/[[\]]/g, '');
}

/** `host:port`, with the brackets that an IPv6 address has in a URL. */
export function authorityOf({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
}
