// A file that is written anew between the close that is pushed and the reading of it: real closes, a real death, and a
// queue of the kernel's that nobody has read yet.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, it } from 'vitest';
import type { FileEvent } from '../../../src/model/file/decide.ts';
import { type FileFacts, sameFingerprint } from '../../../src/model/file/file-state.ts';
import { factsBeneath } from '../../../src/native/files.ts';
import { Files } from '../../../src/sidecar/queue/files.ts';
import { openWitness } from '../../../src/watch/witness.ts';
import { watched } from '../../watch/support.ts';

/** A process is killed in the middle of writing it. */
function tear(dir: string): void {
  spawnSync('sh', ['-c', 'sleep 0.03; exec 3> r.dat; printf half >&3; kill -9 $$'], { cwd: dir });
}

interface Between {
  /** Runs before the file is read for its first push, without a turn of the event loop. */
  readonly closeAndRead?: (dir: string) => void;
  /** Runs before the push asks whether it may publish what it has read. */
  readonly readAndAsk?: (dir: string) => void;
}

/** Closes `r.dat`. What was read of it, and what of that was published. */
async function pushed({ closeAndRead, readAndAsk }: Between) {
  const read: string[] = [];
  const published: string[] = [];
  const witness = openWitness({ launcher: process.pid, self: process.ppid, token: 'none' });
  const watch = await watched({
    witness,
    onClosed: ({ path, how, atMs, evidence }) => files.closed(path, how, atMs, { evidence }),
  });
  const { dir, watcher } = watch;
  const root = { fd: fs.openSync(dir, 'r'), path: dir };
  const facts = (): FileFacts => factsBeneath(root, 'r.dat') as FileFacts;
  const files = new Files({
    push: async ({ pendingSinceMs }, how): Promise<FileEvent> => {
      if (read.length === 0) closeAndRead?.(dir);
      const fingerprint = facts();
      const content = fs.readFileSync(`${dir}/r.dat`, 'utf8');
      read.push(content);
      readAndAsk?.(dir);
      if (how.isHeld(fingerprint)) return { kind: 'held', sinceMs: pendingSinceMs };
      published.push(content);
      const durable = { fingerprint, md5: content, size: content.length };
      return { kind: 'stored', durable, atMs: Date.now(), tookMs: 0 };
    },
    rolesOf: (path) => (path === 'r.dat' ? ['result'] : []),
    replaces: () => false,
    sizeOf: () => 1,
    catchUp: (path) => watcher.catchUp(path),
    isStill: (_, state) => sameFingerprint(facts(), state),
    now: () => Date.now(),
    signal: new AbortController().signal,
  });
  fs.writeFileSync(`${dir}/r.dat`, 'before');
  await watch.until(() => read.length > 0);
  await new Promise((resolve) => setImmediate(resolve));
  files.stop();
  witness?.close();
  fs.closeSync(root.fd);
  return { read, published, fileState: files.get('r.dat', 'result') };
}

it('is not published if a death may have closed it: it waits as that close does', async () => {
  const { read, published, fileState } = await pushed({ closeAndRead: tear });
  expect(read).toEqual(['half']);
  expect(published).toEqual([]);
  expect(fileState).toMatchObject({ pending: true, pushing: false, tornTries: 0, closes: 2 });
  expect(fileState?.notBeforeMs).toBe((fileState?.lastClose?.atMs ?? 0) + 10_000);
});

it('is not published if a death may have closed it, and somebody writes it again before the push knows', async () => {
  const { read, published } = await pushed({
    closeAndRead: tear,
    readAndAsk: (dir) => fs.writeFileSync(`${dir}/r.dat`, 'newer'),
  });
  expect(read).toEqual(['half']);
  expect(published).toEqual([]);
});

it('is published if whoever closed it lives on', async () => {
  const { published } = await pushed({ closeAndRead: (dir) => fs.writeFileSync(`${dir}/r.dat`, 'newer') });
  expect(published[0]).toBe('newer');
});

it('is published as it was read if a death has closed it only after that', async () => {
  const { published, fileState } = await pushed({ readAndAsk: tear });
  expect(published).toEqual(['before']);
  expect(fileState).toMatchObject({ pending: true, lastClose: { evidence: 'doubtful' } });
});
