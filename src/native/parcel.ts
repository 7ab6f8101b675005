// The binary of @parcel/watcher, which the portable watcher stands on. Its JavaScript only reads options that nobody here
// gives. An optional package: without it scans alone find files where inotify does not work.
import type { SubscribeCallback } from '@parcel/watcher';
import { loadBinary } from './binary.ts';

/** One subscription is known by all three arguments. */
interface ParcelWatcher {
  subscribe(dir: string, onChange: SubscribeCallback, options: object): Promise<void>;
  unsubscribe(dir: string, onChange: SubscribeCallback, options: object): Promise<void>;
}

/** @throws CaptureError where it is not installed, or no binary fits this machine. */
export function loadParcel(): ParcelWatcher {
  return loadBinary('@parcel/watcher') as ParcelWatcher;
}
