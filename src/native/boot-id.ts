// Which boot of which machine this is: the same for all its containers, another one after a reboot.
import fs from 'node:fs';

/** A UUID (random(4), boot_id); empty if /proc does not tell. */
export function bootId(): string {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
