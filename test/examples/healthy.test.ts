// The examples as they stand, run where all is well: nothing that they say is a warning. Programs that are not here
// (LAMMPS, Slurm, a kubelet) are stood in for by a few lines; buckets by a directory.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { openPlace, until, type Place, type Run } from '../e2e/support.ts';
import { unstamped } from '../support/messages.ts';
import { expectOutputOf } from './expected.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const read = (name: string): string => fs.readFileSync(path.join(ROOT, name), 'utf8');

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** Writes what the examples declare: frames, three checkpoints and a last result. */
const PROGRAM = `#!/bin/sh
for step in 1 2 3; do
  for frame in frame.$step.dump frame.$step.dat; do echo "frame $step" > $frame; done
  for checkpoint in melt.chk state.chk; do
    echo "step $step" > $checkpoint.new && mv $checkpoint.new $checkpoint
  done
  sleep 0.2
done
echo "all steps" > final.data
echo "Total wall time: 0:00:01" >> melt.log
`;

/** In the place's directory: `bin` with capture and the programs, `store` with the inputs. */
function standIns(): string {
  const bin = path.join(place.dir, 'bin');
  fs.mkdirSync(bin);
  fs.symlinkSync(path.join(ROOT, 'bin/capture'), path.join(bin, 'capture'));
  for (const name of ['lmp', 'simulate']) fs.writeFileSync(path.join(bin, name), PROGRAM, { mode: 0o755 });
  fs.mkdirSync(place.store);
  for (const name of ['in.melt', 'in.dat']) fs.writeFileSync(path.join(place.store, name), 'input\n');
  return `${bin}:${process.env['PATH']}`;
}

async function isHealthy(run: Run): Promise<void> {
  expect(await run.status, run.stderr()).toBe(0);
  expect(run.stdout() + run.stderr()).not.toMatch(
    /warning: |^ *try: (?!to bring back what was deleted: )|NOT stored|failed/m,
  );
}

/** What `capture status` prints of these indices. */
async function statusOf(url: string, array: string): Promise<string> {
  const status = place.capture(['status', url, '--array', array]);
  expect(await status.status, status.stderr()).toBe(0);
  return status.stdout();
}

describe('the demo', () => {
  it('has no warning, and prints what docs/start/try.md shows', async () => {
    const demo = place.exec([path.join(ROOT, 'examples/demo/demo.sh')]);
    await isHealthy(demo);
    expectOutputOf('demo', demo.stdout().slice(demo.stdout().lastIndexOf('\n# ') + 1));
    const shown = /```console\n(.*?)```/s.exec(read('docs/start/try.md'))?.[1] ?? '';
    const figures = (text: string): readonly string[] =>
      unstamped(text)
        .replaceAll(/(?:\/[\w.-]+)*\/capture-demo\.\w+/g, () => '$DEMO')
        .replaceAll(/\d+(\.\d+)?/g, '0')
        .replaceAll(/\b(KiB|MiB|min)\b/g, 'unit')
        .split('\n');
    const printed = new Set(figures(demo.stdout() + demo.stderr()));
    const missing = figures(shown).filter((line) => line !== '[...]' && !printed.has(line));
    expect(missing).toEqual([]);
  });
});

it('examples/loop/loop.sh has no warning, the first time and when all is done', async () => {
  // The same with fewer steps.
  fs.cpSync(path.join(ROOT, 'examples'), path.join(place.dir, 'examples'), { recursive: true });
  fs.mkdirSync(path.join(place.dir, 'bin'));
  fs.symlinkSync(path.join(ROOT, 'bin/capture'), path.join(place.dir, 'bin/capture'));
  const small = { cells: 40, steps: 800, frameEvery: 100, checkpointEvery: 75 };
  fs.writeFileSync(path.join(place.dir, 'examples/demo/heat.json'), JSON.stringify(small));
  const loop = [path.join(place.dir, 'examples/loop/loop.sh'), place.store];
  await isHealthy(place.exec(loop));
  expect(place.keys().filter((key) => key.startsWith('final.dat.'))).toHaveLength(4);
  const again = place.exec(loop);
  await isHealthy(again);
  expect(again.stderr().match(/done already/g)).toHaveLength(4);
  expectOutputOf('loop', await statusOf(place.store, '0-3'));
});

it('examples/slurm/array.sbatch has no warning', async () => {
  const PATH = standIns();
  // slurmd runs every batch script under this name.
  const script = path.join(place.dir, 'slurm_script');
  fs.copyFileSync(path.join(ROOT, 'examples/slurm/array.sbatch'), script);
  const job = { SLURM_JOB_ID: '15', SLURM_ARRAY_JOB_ID: '12', SLURM_ARRAY_TASK_ID: '3' };
  await isHealthy(place.exec(['bash', script], { PATH, STORE: place.store, TMPDIR: place.dir, ...job }));
  expect(place.keys()).toContain('12/final.data.3');
  expect(place.keys()).toContain('12/melt.log.3');
});

it('examples/slurm/array.sbatch leaves in the store why its program has failed', async () => {
  const PATH = standIns();
  const why = 'ERROR: Lost atoms: original 2048 current 14';
  // LAMMPS says it on stdout and in its log, unless it is told to be silent.
  const program = `#!/bin/sh
echo "${why}" >> melt.log
case "$*" in *-screen*) ;; *) echo "${why}" ;; esac
exit 1
`;
  fs.writeFileSync(path.join(place.dir, 'bin/lmp'), program);
  const script = path.join(ROOT, 'examples/slurm/array.sbatch');
  const job = { SLURM_JOB_ID: '15', SLURM_ARRAY_JOB_ID: '12', SLURM_ARRAY_TASK_ID: '3' };
  const env = { PATH, STORE: place.store, TMPDIR: place.dir, ...job };
  const output = path.join(place.dir, 'slurm-12_3.out');
  expect(await place.exec(['sh', '-c', `exec bash '${script}' >'${output}' 2>&1`], env).status).toBe(1);
  const status = place.capture(['status', `${place.store}/12`, '3']);
  expect(await status.status).toBe(1);
  expect(status.stdout()).toMatch(/^ {2}ERROR: Lost atoms: original 2048 current 14$/m);
  expect(place.keys().filter((key) => key.includes('melt.log'))).toHaveLength(1);
});

it('examples/jobs/array.yaml has no warning', async () => {
  const PATH = standIns();
  const simulate = '#!/bin/sh\necho 1 > state.chk\necho "$@" > final.new && mv final.new final.dat\n';
  fs.writeFileSync(place.at('simulate'), simulate, { mode: 0o755 });
  const job = path.join(ROOT, 'examples/jobs/array.yaml');
  const options = ['--array', '0-1', '--to', place.store, '--scratch', place.dir, '--notice', 'none'];
  await isHealthy(place.exec(['capture', 'array', job, ...options], { PATH }));
  expect(place.text('your-name/my-job/final.dat.1')).toBe('--seed 1\n');
  expectOutputOf('jobs', await statusOf(`${place.store}/your-name/my-job`, '0-1'));
});

it('the command of examples/aws-batch has no warning', async () => {
  const PATH = standIns();
  const { containerProperties } = parseYaml(read('examples/aws-batch/job-definition.yaml')) as {
    readonly containerProperties: { readonly command: readonly string[] };
  };
  const command = containerProperties.command.map((word) =>
    word.replaceAll('s3://my-bucket/melt', place.store).replace(/^\/scratch$/, place.work),
  );
  // The machine of the tests is in no cloud, or in one that answers as it likes.
  const job = { AWS_BATCH_JOB_ID: 'job-12:3', AWS_BATCH_JOB_ARRAY_INDEX: '3', CAPTURE_NOTICE: 'none' };
  await isHealthy(place.exec(command, { PATH, ...job }));
  expect(place.keys()).toContain('job-12/final.data.3');
});

interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly command?: readonly string[];
}

it.each(['native-sidecar', 'second-container'])(
  'examples/kubernetes/%s.yaml has no warning',
  async (name) => {
    const PATH = standIns();
    const job = parseYaml(read(`examples/kubernetes/${name}.yaml`)) as {
      readonly spec: {
        readonly template: {
          readonly spec: {
            readonly initContainers: readonly Container[];
            readonly containers: readonly Container[];
          };
        };
      };
    };
    const pod = job.spec.template.spec;
    const env = { PATH, JOB_COMPLETION_INDEX: '3', KUBERNETES_SERVICE_HOST: '10.0.0.1' };
    const start = (which: string): Run => {
      const one = [...pod.initContainers, ...pod.containers].find((container) => container.name === which);
      const words = [...(which === 'task' ? [] : ['capture']), ...(one?.command ?? []), ...(one?.args ?? [])];
      const here = words.map((word) =>
        word
          .replaceAll('s3://my-bucket/sim', place.store)
          // The kubelet puts in the value of the container's environment.
          .replaceAll('$(SUBMISSION)', 'job-12')
          .replaceAll(/\/scratch\b/g, place.work)
          .replaceAll('/tmp/control', path.join(place.dir, 'control')),
      );
      return place.exec(here, env);
    };
    await isHealthy(start('restore'));
    const watch = start('capture');
    await watch.says('task sim');
    const task = start('task');
    expect(await task.status, task.stderr()).toBe(0);
    await isHealthy(watch);
    await until(() => place.keys().includes('job-12/frame.3.dat.3'), 'the last frame');
    expectOutputOf('kubernetes', await statusOf(`${place.store}/job-12`, '3'));
  },
);
