// `file:///directory`: the URL form of a directory. Pure.
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Mistake } from '../../model/errors.ts';
import type { GivenUrl, StoreKind } from '../contract/store.ts';

export const fileKind: StoreKind = {
  form: 'file:///directory',
  parse: parseFile,
  directoryOf: (url) => fileURLToPath(url),
};

/** The URL of an absolute path. */
export function fileUrl(directory: string): string {
  return pathToFileURL(directory).href;
}

function parseFile({ text, source, shown }: GivenUrl): string | Mistake {
  try {
    const directory = fileURLToPath(new URL(text));
    if (/^file:\/\/\//i.test(text)) return fileUrl(path.resolve('/', directory));
  } catch {
    // A host name or an invalid escape gets the same answer as below.
  }
  return {
    message: `${shown}: not the URL of a local directory`,
    hint: `three slashes before an absolute path: ${source} file:///directory`,
  };
}
