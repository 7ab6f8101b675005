// Durations and sizes as people write and read them. In the code they are plain numbers whose names end in Ms or
// Bytes.

const MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
/** A letter alone is binary, as it is for Slurm's `--mem` (sbatch(1)). */
const BYTES = {
  B: 1,
  K: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
} as const;

/** Milliseconds of `30s`, `1.5m`, `250ms`, `1h`; undefined if the text is not a duration. A bare `0` is one. */
export function parseDurationMs(text: string): number | undefined {
  return parseQuantity(text, MS);
}

/** Bytes of `8MiB`, `512K`, `1.5GB`; undefined if the text is not a size. A bare `0` is one. */
export function parseSizeBytes(text: string): number | undefined {
  return parseQuantity(text, BYTES);
}

function parseQuantity(text: string, units: Readonly<Record<string, number>>): number | undefined {
  if (text === '0') return 0;
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(text);
  const [, number, name] = match ?? [];
  if (number === undefined || name === undefined || !Object.hasOwn(units, name)) return undefined;
  const amount = Math.round(Number(number) * (units[name] ?? 0));
  return Number.isSafeInteger(amount) ? amount : undefined;
}

/** `1.2 GiB`, `5.1 KiB`, `17 B`. */
export function formatBytes(bytes: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let value = bytes;
  let unit = 0;
  // From 1023.95 on, the rounded figure would read 1024.0.
  while (value >= (unit === 0 ? 1024 : 1023.95) && unit < names.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${names[unit]}`;
}

/** `250 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`. */
export function formatMs(ms: number): string {
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** An age in one unit: `8 s`, `3 min`, `5 h`, `2 d`. If the clock was set back, the age is `0 s`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** `1 file`, `3 files`, `2 processes`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`;
}
