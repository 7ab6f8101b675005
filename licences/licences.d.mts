interface Metafile {
  readonly inputs: Readonly<Record<string, unknown>>;
}

export function packagesIn(metafiles: readonly Metafile[]): readonly string[];
export function noticesOf(dirs: readonly string[]): string;
