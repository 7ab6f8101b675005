// The proxy for a host, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which Node 20 does not read. It must never return a
// proxy for a host that NO_PROXY exempts.
import net from 'node:net';
import { StoreError } from '../contract/store.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The target of a request. `host` has no brackets around an IPv6 address. */
interface Target {
  readonly protocol: string;
  readonly host: string;
  readonly port: number;
}

/**
 * The proxy for a host, or undefined for a direct connection. Lower-case names win, as in curl. The connection to a
 * proxy is TCP (`http://`) or TLS (`https://`). Other kinds are refused, so that no password is sent in an unintended
 * way.
 */
export function proxyFor(target: Target, env: Environment): URL | undefined {
  const name = target.protocol === 'https:' ? 'https_proxy' : 'http_proxy';
  const address = env[name] ?? env[name.toUpperCase()];
  if (address === undefined || address === '' || isExempt(target, env)) return undefined;
  const text = address.includes('://') ? address : `http://${address}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return url;
  const what =
    url === undefined
      ? 'is no address of a proxy'
      : `names a proxy of a kind that is not known (${url.protocol}//)`;
  throw new StoreError('refused', `${name.toUpperCase()} ${what}`, {
    hint: 'write http://host:port, or https://host:port for a proxy that speaks TLS',
  });
}

/**
 * NO_PROXY is a comma-separated list of hosts, `.domains` or `*.domains` (a bare domain covers its subdomains, too),
 * addresses, networks (`10.0.0.0/8`, `fd00::/8`), and `*`. All of them except networks may have a `:port`. A network
 * covers hosts that are written as addresses: names are not resolved, as in curl, Go and Python.
 */
function isExempt(target: Target, env: Environment): boolean {
  const entries = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').toLowerCase().split(/[\s,]+/);
  return entries.some((entry) => entry !== '' && covers(entry, target));
}

function covers(entry: string, target: Target): boolean {
  if (entry === '*') return true;
  // An IPv6 address stands alone, or in brackets with a port.
  const [, address, domain = address ?? entry, port] =
    net.isIPv6(entry) || entry.includes('/')
      ? [entry, entry]
      : (/^(?:\[(.*)\]|\*?\.?(.*?))(?::(\d+))?$/.exec(entry) ?? []);
  if (port !== undefined && Number(port) !== target.port) return false;
  const host = target.host.toLowerCase();
  if (net.isIP(host) !== 0) return isWithin(host, domain);
  const name = withoutRoot(domain);
  return name !== '' && `.${withoutRoot(host)}`.endsWith(`.${name}`);
}

/** `network` is an address or, in CIDR notation (RFC 4632, section 3.1), the addresses with the same first bits. */
function isWithin(host: string, network: string): boolean {
  const [address = '', bits, ...more] = network.split('/');
  const kind = kindOf(address);
  const most = kind === 'ipv6' ? 128 : 32;
  if (kind === undefined || more.length > 0 || (bits !== undefined && !/^\d{1,3}$/.test(bits))) return false;
  if (Number(bits ?? most) > most) return false;
  const list = new net.BlockList();
  list.addSubnet(address, Number(bits ?? most), kind);
  return list.check(host, kindOf(host));
}

function kindOf(address: string): net.IPVersion | undefined {
  const version = net.isIP(address);
  return version === 0 ? undefined : version === 6 ? 'ipv6' : 'ipv4';
}

/** `example.org.` is the same name (RFC 1034, section 3.1). */
function withoutRoot(name: string): string {
  return name.replace(/\.$/, '');
}

/** Whether the connection to the proxy uses TLS. */
export function isSecure(proxy: URL): boolean {
  return proxy.protocol === 'https:';
}

export function addressOf(proxy: URL): { readonly host: string; readonly port: number } {
  return { host: hostOf(proxy), port: Number(proxy.port || (isSecure(proxy) ? 443 : 80)) };
}

/** `Proxy-Authorization` for a proxy URL with user and password. */
export function proxyHeaders(proxy: URL): Record<string, string> {
  if (proxy.username === '') return {};
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(user).toString('base64')}` };
}

/** The host of a URL without the brackets of IPv6, for sockets. */
export function hostOf(url: URL): string {
  return url.hostname.replaceAll(/[[\]]/g, '');
}

/** `host:port`, with the brackets of an IPv6 address in a URL. */
export function authorityOf({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** By name or address (RFC 6761, section 6.3; RFC 5735); names are not resolved. */
export function isLoopback(host: string): boolean {
  return /^(.*\.)?localhost\.?$|^127\.\d+\.\d+\.\d+$|^::1$/i.test(host);
}
