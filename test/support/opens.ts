// Which files of a directory tree are opened, from inotify(7).
import fs from 'node:fs';
import path from 'node:path';
import { parseEvents } from '../../src/watch/event-bytes.ts';
import { IN, libcInotify } from '../../src/watch/inotify.ts';

const IN_OPEN = 0x20;

/** Starts to count. The returned function gives the files below `dir` that were opened since its last call. */
export function countOpens(dir: string): () => readonly string[] {
  const fd = libcInotify.open();
  const dirs = new Map<number, string>();
  const watch = (at: string): void => {
    dirs.set(libcInotify.add(fd, at, IN_OPEN), at);
    for (const entry of fs.readdirSync(at, { withFileTypes: true }))
      if (entry.isDirectory()) watch(path.join(at, entry.name));
  };
  watch(dir);
  const bytes = Buffer.alloc(2 ** 20);
  const taken = (): readonly string[] => {
    const opened: string[] = [];
    for (let length = libcInotify.read(fd, bytes); length > 0; length = libcInotify.read(fd, bytes))
      parseEvents(bytes, length, (at, mask, _cookie, name) => {
        if ((mask & IN.isDir) === 0) opened.push(path.join(dirs.get(at) ?? '', name));
      });
    return opened;
  };
  taken();
  return taken;
}
