// The binary of @parcel/watcher, which the portable watcher uses. The JavaScript of that package only reads options
// that we do not use. An optional package: without it, only scans find files if inotify does not work.
import type { SubscribeCallback } from '@parcel/watcher';
import { loadBinary } from './binary.ts';

/** All three arguments together identify a subscription. */
interface ParcelWatcher {
  subscribe(dir: string, onChange: SubscribeCallback, options: object): Promise<void>;
  unsubscribe(dir: string, onChange: SubscribeCallback, options: object): Promise<void>;
}

/** @throws CaptureError if it is not installed, or no binary fits this machine. */
export function loadParcel(): ParcelWatcher {
  return loadBinary('@parcel/watcher') as ParcelWatcher;
}
