// The journal of reclaims, `.capture/journal`: which path each file in `.capture/reclaim/` had, written and synced
// before the rename. It has no "done" lines: an entry is over when its file no longer stands there.
import fs from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import * as z from 'zod';
import { CaptureError, errnoOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { Fingerprint } from '../model/file/file-state.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import { isInside, type RelPath } from '../model/path.ts';
import { heldPath, type WorkDir } from '../native/beneath.ts';
import { absolutePath } from '../native/own-dir.ts';
import { makePrivateFile, readPrivateFile } from '../native/private-dir.ts';
import { tidyUp } from '../native/tidy.ts';

/** Where the journal stands. */
export const JOURNAL: RelPath = `${OWN_DIR}/journal`;
const JOURNAL_NAME = 'journal';

/**
 * Filled with empty lines at the start; entries are written over them. Files are reclaimed when space runs short: then
 * a journal that grows may find none. Some 500 entries, and a few of the longest path.
 */
const RESERVE_BYTES = 128 * 1024;

const entrySchema = z.object({
  id: z.string().regex(/^[\w-]+$/),
  path: z.string().refine(isInside),
  file: z.object({
    dev: z.string(),
    ino: z.string(),
    size: z.int().nonnegative(),
    mtimeNs: z.string(),
    ctimeNs: z.string(),
  }),
});

/** One file that is about to be set aside. */
export interface JournalEntry {
  /** Its name in `.capture/reclaim/`, never used twice. */
  readonly id: string;
  readonly path: RelPath;
  /** The state whose bytes are durable. */
  readonly file: Fingerprint;
}

export interface Journal {
  /** Resolves when the entry is on disk; entries of the same moment share one fsync. */
  begin(entry: JournalEntry): Promise<void>;
  /** Nothing stands in `.capture/reclaim/` under this id any more. */
  done(id: string): void;
  /** Something stays there, for the next start to recover: from now on no line is overwritten. */
  keep(): void;
  /** Takes the journal away, unless an entry is not done: the next start needs it. */
  close(): Promise<void>;
}

interface Waiting {
  readonly id: string;
  readonly line: Buffer;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const write = promisify(fs.write);
const fdatasync = promisify(fs.fdatasync);

/** Opens a new journal. Throws when there is one: it must be recovered first. */
export function openJournal(root: WorkDir): Journal {
  const fd = createFile(root);
  const pending = new Set<string>();
  const queue: Waiting[] = [];
  let endBytes = 0;
  let grows = false;
  let committing: Promise<void> | undefined;

  const commitAll = async (): Promise<void> => {
    await nextTurn(); // Whoever reclaims many files at once gets one fsync for them.
    while (queue.length > 0) {
      // All entries are done, so their lines are written over: what is left of one names no file that stands there.
      if (pending.size === 0) endBytes = 0;
      const batch = queue.splice(0, fitting(queue, grows ? Infinity : RESERVE_BYTES - endBytes));
      // The reserve is full: the next entries wait until those under way are done.
      if (batch.length === 0) break;
      for (const { id } of batch) pending.add(id);
      try {
        const lines = Buffer.concat(batch.map(({ line }) => line));
        // oxlint-disable-next-line no-await-in-loop -- one batch after the other is the order of a journal
        await commitLines(fd, lines, endBytes);
        endBytes += lines.length;
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { id, reject } of batch) {
          pending.delete(id);
          reject(error);
        }
      }
    }
    committing = undefined;
  };
  const commit = (): void => {
    committing ??= commitAll();
  };

  return {
    begin: ({ id, path, file: { dev, ino, size, mtimeNs, ctimeNs } }) =>
      new Promise((resolve, reject) => {
        const entry = { id, path, file: { dev, ino, size, mtimeNs, ctimeNs } };
        queue.push({ id, line: Buffer.from(`${JSON.stringify(entry)}\n`), resolve, reject });
        commit();
      }),
    done: (id) => {
      pending.delete(id);
      if (pending.size === 0 && queue.length > 0) commit();
    },
    keep: () => {
      grows = true;
      commit();
    },
    close: async () => {
      await committing;
      fs.closeSync(fd);
      if (pending.size === 0) tidyUp(() => fs.rmSync(absolutePath(root, JOURNAL), { force: true }));
    },
  };
}

/** How many of the first lines have room together. */
function fitting(queue: readonly Waiting[], roomBytes: number): number {
  let bytes = 0;
  const tooMany = queue.findIndex(({ line }) => (bytes += line.length) > roomBytes);
  return tooMany === -1 ? queue.length : tooMany;
}

function createFile(root: WorkDir): number {
  let fd: number;
  try {
    fd = makePrivateFile(`${heldPath(root)}/${OWN_DIR}`, JOURNAL_NAME);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw new CaptureError(
      EXIT.internal,
      `cannot start a new ${JOURNAL} in ${root.path}: the old one was not recovered`,
    );
  }
  try {
    fs.writeFileSync(fd, Buffer.alloc(RESERVE_BYTES, '\n'));
    fs.fsyncSync(fd);
    return fd;
  } catch (error) {
    fs.closeSync(fd);
    tidyUp(() => fs.rmSync(absolutePath(root, JOURNAL), { force: true }));
    throw error;
  }
}

async function commitLines(fd: number, bytes: Buffer, atBytes: number): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    // oxlint-disable-next-line no-await-in-loop -- a short write is continued where it stopped
    written += (await write(fd, bytes, written, bytes.length - written, atBytes + written)).bytesWritten;
  }
  await fdatasync(fd);
}

/** The entries of a journal that an earlier start left, by id; torn and overwritten lines are passed over. */
export function readJournal(root: WorkDir): ReadonlyMap<string, JournalEntry> {
  const entries = new Map<string, JournalEntry>();
  const text = readPrivateFile(`${heldPath(root)}/${OWN_DIR}`, JOURNAL_NAME) ?? '';
  for (const line of text.split('\n')) {
    const entry = line === '' ? undefined : parseEntry(line);
    if (entry !== undefined) entries.set(entry.id, entry);
  }
  return entries;
}

function parseEntry(line: string): JournalEntry | undefined {
  try {
    return entrySchema.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}
