// The melt of examples/slurm, small enough for eight tasks on two cores, and what it must end with.
import { execFile } from 'node:child_process';
import { mkdtemp, mkdir, readFile, readdir, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import { realStore } from '../bucket.ts';
import { contentOf, openObjects } from '../objects.ts';

export const SCRIPT = path.resolve('examples/slurm/array.sbatch');
const INPUT = path.resolve('examples/slurm/in.melt');
/** Seconds that a task rests after each of its 16 checkpoints: it must still run when it is preempted. */
const REST_S = 0.5;

/** What a job's environment needs beside the test's own. Open MPI must not look for Slurm, networks or users. */
const JOB_ENV = {
  PATH: `${path.resolve('bin')}:${process.env['PATH']}`,
  OMP_NUM_THREADS: '1',
  OMPI_MCA_btl: 'self,vader',
  OMPI_MCA_plm: 'isolated',
  OMPI_MCA_ras: '^slurm',
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
};
/** A multiple of the input's `neigh_modify every`: else a resumed run writes its first frame with other images. */
const EVERY = 240;
export const CHECKPOINTS = 16;
export const LAMMPS = ['cells 6', `total ${CHECKPOINTS * EVERY}`, `every ${EVERY}`].flatMap((variable) => [
  '-var',
  ...variable.split(' '),
]);

/** The same files in a line of a job script, for one task on its own whatever its job. */
export const CAPTURE_MELT =
  'exec capture --workdir auto --task-name lmp --index 0 --inputs in.melt ' +
  "--results 'frame.*.dump' --results final.data --checkpoints melt.chk";

/** One scenario: a directory for its work, and a prefix of the store with the input. */
export interface Place {
  readonly dir: string;
  readonly url: string;
  readonly env: NodeJS.ProcessEnv;
}

export interface Melt {
  place(name: string, restS?: number): Promise<Place>;
  /**
   * Each stored result of the index is, bit for bit, that of the uninterrupted run. `partialOf`: also under the name
   * that what may be half-written has from this attempt: the input rests by a process that ends beside the frames.
   */
  expectWhole(place: Place, index: number | string, partialOf?: number): Promise<void>;
  /** Kinds of records, such as `done`, with their attempts, such as `0002`. */
  lastRecords(place: Place, index: number | string): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function openMelt(): Promise<Melt> {
  const root = await mkdtemp(path.join(os.tmpdir(), 'slurm-'));
  const reference = path.join(root, 'reference');
  await mkdir(reference);
  await promisify(execFile)('lmp', ['-in', INPUT, '-screen', 'none', ...LAMMPS], {
    cwd: reference,
    env: { ...process.env, ...JOB_ENV },
  });
  const names = (await readdir(reference)).filter((name) => /^(frame\.\d+\.dump|final\.data)$/.test(name));
  return {
    place: async (name, restS = REST_S) => {
      const dir = path.join(root, name);
      await mkdir(dir);
      const url = `${realStore().url}/${path.basename(root)}/${name}`;
      await put(`${url}/in.melt`, await resting(restS));
      // The example's script takes the last two, other lines the first.
      const store = { CAPTURE_TO: url, STORE: path.posix.dirname(url), RUN: name };
      return { dir, url, env: { ...JOB_ENV, TMPDIR: dir, ...store, CAPTURE_GRACE: '15s' } };
    },
    expectWhole: async ({ url }, index, partialOf) => {
      const objects = openObjects(url);
      try {
        expect(names).toHaveLength(CHECKPOINTS + 2);
        for (const name of names) {
          const key = `${name}.${index}`;
          const partial = `${key}.partial-${partialOf}`;
          const isPartial = (await objects.keys()).some((one) => one.startsWith(partial));
          const stored = await contentOf(objects, isPartial ? partial : key);
          const same = stored.equals(await readFile(path.join(reference, name)));
          expect(same, `${name} of index ${index} equals the reference`).toBe(true);
        }
      } finally {
        objects.close();
      }
    },
    lastRecords: async ({ url }, index) => {
      const objects = openObjects(url);
      try {
        const records = (await objects.keys()).filter(
          (key) => key.startsWith('.capture/') && key.split('/').at(-2) === String(index),
        );
        return records.map((key) =>
          path
            .basename(key)
            .replace(/-\d+\./, ' ')
            .replace(/\.json$/, ''),
        );
      } finally {
        objects.close();
      }
    },
    close: () => rm(root, { recursive: true, force: true }),
  };
}

/** What `capture status` prints of these indices. */
export async function statusOf({ url }: Place, array: string): Promise<string> {
  const { stdout } = await promisify(execFile)('bin/capture', ['status', url, '--array', array]);
  return stdout;
}

/** The example's input, resting after each checkpoint. */
async function resting(restS: number): Promise<string> {
  const text = await readFile(INPUT, 'utf8');
  const rests = text.replace('"write_restart melt.chk"', `$& "shell sleep ${restS}"`);
  expect(rests).not.toBe(text);
  return rests;
}

async function put(url: string, text: string): Promise<void> {
  const { hostname, pathname } = new URL(url);
  const client = new S3Client({});
  try {
    await client.send(new PutObjectCommand({ Bucket: hostname, Key: pathname.slice(1), Body: text }));
  } finally {
    client.destroy();
  }
}
