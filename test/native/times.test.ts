import fs from 'node:fs';
import { expect, test } from 'vitest';
import { setMtime } from '../../src/native/times.ts';
import { testDir } from '../support/work-dir.ts';

test.each(['1700000000123456789', '0', '999999999', '-1', '-1500000000'])(
  'mtime %s ns is kept exactly',
  (ns) => {
    const dir = testDir();
    const fd = fs.openSync(dir.write('file', ''), 'r+');
    setMtime(fd, ns);
    fs.closeSync(fd);
    expect(dir.facts('file').mtimeNs).toBe(ns);
    dir.remove();
  },
);
