// Tells one state of a file from another without reading it. The nanosecond times matter: two writes in one
// millisecond make two states.

/** fstat(2) of a regular file. Times are ns since the epoch as decimal strings, exact and JSON-safe. */
export interface Fingerprint {
  readonly dev: string;
  readonly ino: string;
  readonly size: number;
  readonly mtimeNs: string;
  readonly ctimeNs: string;
}

/** A fingerprint, and what else a push needs to know. */
export interface FileFacts extends Fingerprint {
  /** Permission bits only. */
  readonly mode: number;
  readonly links: number;
}

export function sameFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return sameContentFingerprint(a, b) && a.ctimeNs === b.ctimeNs;
}

/** Without ctime, which a rename or a chmod changes although the bytes stay. */
export function sameContentFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return a.dev === b.dev && a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs;
}
