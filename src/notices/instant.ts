// Instants as the sources write them, and as the user reads them.

/** ms since the epoch of RFC 3339 (EC2) or RFC 9110 (Azure); undefined when it says no instant. */
export function instantMs(text: string | undefined): number | undefined {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

/** ` at 08:22:00Z`, with its day: it may lie days ahead. Nothing when nobody knows. */
export function atInstant(atMs: number | undefined): string {
  return atMs === undefined ? '' : ` at ${new Date(atMs).toISOString().replace('.000Z', 'Z')}`;
}
