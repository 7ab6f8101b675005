// Results of an earlier attempt that vanished from the store, or were cut in it, before the next attempt began. The
// record `done` never names what is not there.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openS3Place } from './s3-place.ts';
import { noise, openPlace, type Place, type Run } from './support.ts';

const OPTIONS = ['--task-name', 't', '-r', 'out.*', '--trust-exit', '3'] as const;
const ALL = 'for i in 1 2 3; do seq 1 1000$i > out.$i; done';

let place: Place;
beforeEach(async () => {
  place = openPlace();
  await place.run(OPTIONS, ['sh', '-c', `${ALL}; exit 3`]).status;
  place.freshWork();
});
afterEach(() => place.close());
const object = (name: string): string => path.join(place.store, name);
const next = (task = ALL): Run => place.run(OPTIONS, ['sh', '-c', task]);

const damages: readonly (readonly [string, (file: string) => void])[] = [
  ['vanished', (file) => fs.rmSync(file)],
  ['was cut short', (file) => fs.truncateSync(file, 50)],
  ['was written over', (file) => fs.writeFileSync(file, 'by hand\n')],
];

describe('a stored result that', () => {
  it.each(damages)(
    '%s is found, and pushed again, when the task writes the same again',
    async (_, damage) => {
      damage(object('out.2.0.zst'));
      const run = next();
      expect(await run.status, run.stderr()).toBe(0);
      for (const n of [1, 2, 3]) expect(place.text(`out.${n}.0.zst`).endsWith(`1000${n}\n`)).toBe(true);
      expect(run.stderr()).toContain(
        'out.2 that attempt 1 stored is gone from the store, or was changed in it',
      );
      expect(run.stderr()).toContain('stored 1 result');
    },
  );

  it.each(damages)('%s and does not come again is left, and the run ends with 74', async (_, damage) => {
    damage(object('out.2.0.zst'));
    const run = next('seq 1 10001 > out.1');
    expect(await run.status, run.stderr()).toBe(74);
    expect(run.stderr()).toMatch(/NOT stored: out\.2 \(attempt 1 stored it, its object is .*not here\)/);
    const last = place.records().at(-1)?.record;
    expect(last).toMatchObject({ kind: 'failed', left: [{ path: 'out.2' }] });
    expect(fs.readFileSync(object('out.3.0.zst')).length).toBeGreaterThan(50);
  });
});

it('A stored result that is cut with its metadata whole is found by its size', async () => {
  const s3 = await openS3Place();
  try {
    fs.writeFileSync(s3.place.at('seed'), noise(100_000, 1));
    expect(await s3.run(['-r', 'r.dat', '--trust-exit', '3'], 'cp seed r.dat; exit 3').status).toBe(3);
    s3.server.cut('run/r.dat.0', 50_000);
    const run = s3.run(['-r', 'r.dat'], 'cp seed r.dat');
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.server.versions('run/r.dat.0').at(-1)?.sizeBytes).toBe(100_000);
  } finally {
    await s3.close();
  }
});

it('A result that is stored as its record says costs one look and no upload', async () => {
  const s3 = await openS3Place();
  try {
    const options = ['-r', 'r.dat', '--trust-exit', '3'];
    expect(await s3.run(options, 'echo 1 > r.dat; exit 3').status).toBe(3);
    s3.place.freshWork();
    const before = s3.server.served.length;
    const run = s3.run(options, 'echo 1 > r.dat');
    expect(await run.status, run.stderr()).toBe(0);
    const asked = s3.server.served.slice(before).filter(({ key }) => key === 'run/r.dat.0');
    expect(asked.map(({ operation }) => operation)).toEqual(['HeadObject', 'HeadObject']);
  } finally {
    await s3.close();
  }
});
