// A store that is a directory: do other nodes see it, and is it as it was after we looked at it? The driver makes the
// directory at its first put, and an exam of a store that nobody uses yet must not leave one.
import fs from 'node:fs';
import path from 'node:path';
import { encodePath, showPath } from '../model/path.ts';
import { type Finding, ok, warn } from './finding.ts';
import { kindOf } from './places.ts';

const SHARED = 'name a directory on a file system that all nodes share, or a bucket';

/** `isJob`: a scheduler has started us, so the next attempt may run on another node. */
export function examineStorePlace(directory: string, isJob: boolean): Finding {
  const { type, name, isNetwork } = kindOf(directory);
  const says = `${showPath(directory)} is on ${name}`;
  const facts = { path: directory, fileSystem: type };
  if (isNetwork) return ok('place', says, facts);
  if (type === 'tmpfs' || type === 'overlay')
    return warn('place', `${says}: it is lost with this machine or container`, SHARED, facts);
  if (isJob) return warn('place', `${says}: another node would not see it`, SHARED, facts);
  return ok('place', `${says}: only this machine sees it`, facts);
}

/** To be called before the store is used: afterwards takes away the empty directories that were not there. */
export function keepAsItWas(directory: string): { close(): void } {
  const missing: string[] = [];
  for (let at = directory; !fs.existsSync(encodePath(at)); at = path.dirname(at)) missing.push(at);
  return {
    close: () => {
      if (missing.length === 0) return;
      removeEmpty(directory);
      for (const dir of missing.slice(1)) tryRemove(dir);
    },
  };
}

function removeEmpty(dir: string): void {
  for (const entry of entriesOf(dir)) if (entry.isDirectory()) removeEmpty(path.join(dir, entry.name));
  tryRemove(dir);
}

function entriesOf(dir: string): readonly fs.Dirent[] {
  try {
    return fs.readdirSync(encodePath(dir), { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Stays if it is not empty: somebody else uses it by now. */
function tryRemove(dir: string): void {
  try {
    fs.rmdirSync(encodePath(dir));
  } catch {
    // As it is.
  }
}
