// Where objects go, as the user writes it: a URL of one of the kinds, or a plain path. Pure; gives the one form that the
// rest of capture works with, or says why it cannot be a store. What is a kind's own is in its driver's room.
import path from 'node:path';
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { fileUrl } from './file/url.ts';
import { allKinds, kindOf } from './open.ts';

/** `source` is what it came from, for the message: `--to`, or `CAPTURE_TO`. Paths are taken from `cwd`. */
export function parseStoreUrl(text: string, source: string, cwd: string): string | Mistake {
  const shown = `${source} '${showPath(text)}'`;
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text)?.[1]?.toLowerCase();
  if (scheme === undefined) return parsePath(text, source, shown) ?? fileUrl(path.resolve(cwd, text));
  const kind = kindOf(scheme);
  if (kind !== undefined) return kind.parse({ text, source, shown });
  const [instead = everyForm()] = allKinds().flatMap((one) => one.insteadOf?.(scheme) ?? []);
  return { message: `${shown}: no such kind of store`, hint: `${source} ${instead}` };
}

/** The directory of this machine where the store with this URL stands, absolute; undefined when it is elsewhere. */
export function storeDirectory(url: string): string | undefined {
  return kindOf(url.split('://')[0] ?? '')?.directoryOf(url);
}

/** Why a text without a scheme is probably not meant as a path. */
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
