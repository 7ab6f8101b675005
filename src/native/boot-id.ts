// Identifies a machine and its boot. All containers of a machine share it, and a reboot changes it.
import fs from 'node:fs';

/** A UUID (random(4), boot_id); empty if /proc does not tell. */
export function bootId(): string {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
