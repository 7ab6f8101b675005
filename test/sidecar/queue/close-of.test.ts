// Of which close is what a push has read? The file may be written again between the close that is pushed and the
// reading: real closes, a real death, and a queue of the kernel's that nobody has read yet.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, it } from 'vitest';
import type { FileEvent } from '../../../src/model/file/decide.ts';
import { type Close, type FileFacts, sameFingerprint } from '../../../src/model/file/file-state.ts';
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
  /** Runs before the push asks of which close it is. */
  readonly readAndAsk?: (dir: string) => void;
}

/** Closes `r.dat`. What the first push has read of it, of which close, and what came after that. */
async function pushed({ closeAndRead, readAndAsk }: Between) {
  const read: { readonly content: string; readonly close: Close | undefined }[] = [];
  const witness = openWitness({ launcher: process.pid, self: process.ppid, token: 'none' });
  const watch = await watched({
    witness,
    onClosed: ({ path, how, atMs, evidence }) => files.closed(path, how, atMs, { evidence }),
  });
  const { dir, watcher } = watch;
  const root = { fd: fs.openSync(dir, 'r'), path: dir };
  const facts = (): FileFacts => factsBeneath(root, 'r.dat') as FileFacts;
  const files = new Files({
    closeOf: (lastClose) => lastClose,
    isAfter: ({ atMs }, { ctimeNs }) => BigInt(ctimeNs) / 1_000_000n > atMs,
    push: async (_, how): Promise<FileEvent> => {
      if (read.length === 0) closeAndRead?.(dir);
      const fingerprint = facts();
      const content = fs.readFileSync(`${dir}/r.dat`, 'utf8');
      if (read.length === 0) readAndAsk?.(dir);
      read.push({ content, close: how.closeOf(fingerprint) });
      const durable = { fingerprint, md5: content, size: content.length };
      return { kind: 'stored', durable, atMs: Date.now(), tookMs: 0 };
    },
    rolesOf: (path) => (path === 'r.dat' ? ['result'] : []),
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
  return { first: read[0], fileState: files.get('r.dat', 'result') };
}

it('belongs to the death’s close if the process that wrote it has died', async () => {
  const { first, fileState } = await pushed({ closeAndRead: tear });
  expect(first).toMatchObject({ content: 'half', close: { evidence: 'doubtful' } });
  expect(first?.close).toEqual(fileState?.lastClose);
  expect(fileState?.closes).toBe(2);
});

it('never belongs to the close before a death’s, even if the file is written again before the push asks', async () => {
  const { first } = await pushed({
    closeAndRead: tear,
    readAndAsk: (dir) => fs.writeFileSync(`${dir}/r.dat`, 'newer'),
  });
  expect(first).toMatchObject({ content: 'half', close: { evidence: 'doubtful' } });
});

it('belongs to the close of the process that lives on', async () => {
  const { first } = await pushed({ closeAndRead: (dir) => fs.writeFileSync(`${dir}/r.dat`, 'newer') });
  expect(first).toMatchObject({ content: 'newer', close: { evidence: 'clean' } });
});

it('belongs to the close that was pushed if a death closed the file only after the reading', async () => {
  const { first, fileState } = await pushed({ readAndAsk: tear });
  expect(first).toMatchObject({ content: 'before', close: { evidence: 'clean' } });
  expect(fileState).toMatchObject({ closes: 2, lastClose: { evidence: 'doubtful' } });
});
