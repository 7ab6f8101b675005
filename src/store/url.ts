// The user's notation for a store: a URL of one of the kinds, or a plain path. Pure. It returns the normalised URL that
// the rest of capture uses, or why it cannot be a store. The rules of each kind are in its driver's folder.
import path from 'node:path';
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { fileUrl } from './file/url.ts';
import { allKinds, kindOf } from './open.ts';

/** `source` is the origin, for the message: `--to`, or `CAPTURE_TO`. Paths are relative to `cwd`. */
export function parseStoreUrl(text: string, source: string, cwd: string): string | Mistake {
  const shown = `${source} '${showPath(text)}'`;
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text)?.[1]?.toLowerCase();
  if (scheme === undefined) return parsePath(text, source, shown) ?? fileUrl(path.resolve(cwd, text));
  const kind = kindOf(scheme);
  if (kind !== undefined) return kind.parse({ text, source, shown });
  const [instead = everyForm()] = allKinds().flatMap((one) => one.insteadOf?.(scheme) ?? []);
  return { message: `${shown}: no such kind of store`, hint: `${source} ${instead}` };
}

/** The absolute path of the store's directory on this machine; undefined if the store is elsewhere. */
export function storeDirectory(url: string): string | undefined {
  return kindOf(url.split('://')[0] ?? '')?.directoryOf(url);
}

/** Why a text without a scheme is probably not a path. */
function parsePath(text: string, source: string, shown: string): Mistake | undefined {
  if (text === '') return { message: `${source}: the store is empty`, hint: `${source} ${everyForm()}` };
  const [scheme = '', rest] = text.split('//', 2);
  if (rest === undefined || kindOf(scheme.toLowerCase()) === undefined) return undefined;
  const hint = `${source} ${text.replace('//', '://')}, or ./${text} for a directory`;
  return { message: `${shown}: lacks its colon`, hint };
}

function everyForm(): string {
  const forms = allKinds().map(({ form }) => form);
  return `${forms.join(', ')}, or the path of a directory`;
}
