// A file system below the work directory dies while the task runs (a FUSE daemon that was killed, an NFS server that is
// gone): each look at its files is an error, which is theirs and not the run's.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { told } from '../support/messages.ts';
import { inNamespace } from '../support/namespace.ts';
import { BIN, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** Mounts a file system whose daemon is dead at once: all calls fail with ENOTCONN. */
const DIE = `die() {
  exec 9<>/dev/fuse
  mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none "$1"
  exec 9<&-
}`;

function mayMount(): boolean {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-dead-'));
  const [program = '', ...words] = inNamespace({}, ['sh', '-c', `${DIE}; mkdir m; die m`], dir);
  const { status } = spawnSync(program, words);
  fs.rmSync(dir, { recursive: true });
  return status === 0;
}

describe.skipIf(!mayMount())(
  'a mount that dies below the work directory (skipped if FUSE cannot be mounted here)',
  () => {
    it('costs its own files: they are named, the rest is stored, the sidecar lives, one warning says why', async () => {
      // Where a directory was dead before, capture also looks at each closed file by its path.
      const before = `${DIE}; mkdir dead m; die dead`;
      const task = `${DIE}; exec 3> m/a.dat 4> m/b.dat 5> m/c.dat; echo x >&3; echo x >&4; echo x >&5
      die m; exec 3>&- 4>&- 5>&-; echo local > l.dat`;
      const options = ['-r', '**/*.dat', '--to', place.store, '--index', '0', '--drain-timeout', '2s'];
      const command = [BIN, ...options, '--log-format', 'json', '--', 'sh', '-c', task];
      const run = place.exec(inNamespace({ before }, command, place.work));
      expect(await run.status, run.stderr()).toBe(74);
      expect(run.stderr()).not.toContain('sidecar died');
      expect(place.keys()).toEqual(['l.dat.0']);
      const left = place.records().at(-1)?.record.left ?? [];
      expect(left.map(({ path }) => path).toSorted()).toEqual(['dead', 'm', 'm/a.dat', 'm/b.dat', 'm/c.dat']);
      for (const { why } of left) expect(why).toContain('ENOTCONN');
      expect(told(run.stderr()).filter(({ event }) => event === 'not-stored')).toHaveLength(1);
    }, 30_000);

    it('over the work directory costs no file below it; what was closed on it is not seen, which is no success', async () => {
      const task = `${DIE}; echo one > r1; die "$WORK"; exit 0`;
      const options = ['-r', 'r*', '--to', place.store, '--index', '0'];
      const command = [BIN, ...options, '--', 'sh', '-c', task];
      const run = place.exec(inNamespace({}, command, place.work), { WORK: place.work });
      expect(await run.status, run.stderr()).toBe(74);
      expect(place.keys()).toEqual(['r1.0']);
      const left = [{ path: '.', why: expect.stringContaining('cannot be looked at') }];
      expect(place.records().at(-1)?.record).toMatchObject({ kind: 'failed', left });
    }, 30_000);
  },
);
