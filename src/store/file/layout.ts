// Where the file store keeps things: an object is a plain file under its key, so that people can use the
// directory without us; what belongs to us stands apart and can never be taken for an object.
import { md5Of } from '../../model/md5.ts';
import { isInside } from '../../model/path.ts';
import { StoreError } from '../contract/store.ts';

/** At the root of the store. Keys of capture begin with `.capture/`, never with this. */
const OURS = '.capture-store';

export interface Layout {
  /** Absolute, without a slash at its end. */
  readonly root: string;
  /** Temporaries: on the same file system, so that a rename publishes them. */
  readonly tmp: string;
  /** The file of an object; throws `refused` for a key that would leave the store. */
  objectPath(key: string): string;
  /** The metadata of the object that is this very inode: never that of the one before or after it. */
  metaPath(key: string, ino: bigint): string;
  /** True for what a listing must not show. */
  isOurs(name: string, dir: string): boolean;
}

/** The layout of a store at `root`. */
export function layoutOf(root: string): Layout {
  return {
    root,
    tmp: `${root}/${OURS}/tmp`,
    objectPath: (key) => {
      if (isInside(key) && !`${key}/`.startsWith(`${OURS}/`)) return `${root}/${key}`;
      throw new StoreError('refused', `the key ${JSON.stringify(key)} would leave the store file://${root}`);
    },
    metaPath: (key, ino) => {
      const name = md5Of(key);
      return `${root}/${OURS}/meta/${name.slice(0, 2)}/${name}.${ino}`;
    },
    isOurs: (name, dir) => name === OURS && dir === root,
  };
}
