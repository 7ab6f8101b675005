// The examples of engines that are not here, each carried out as its documentation says: with the variables that the engine
// sets and the signals that it sends; and what it does with an exit status is read from the example itself.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import type { Run } from '../e2e/support.ts';
import { type Engine, openEngine, rangeIn, runArray, signalAll, signalFirst } from './stand-in.ts';

let engine: Engine;
beforeEach(({ task }) => {
  engine = openEngine(task.name.split(':')[0] ?? '');
});
afterEach(() => engine.place.close());

/** A job script of the example, as a file. */
function scriptOf(name: string): { readonly text: string; readonly script: string } {
  const text = engine.textOf(name);
  const script = path.join(engine.place.dir, name);
  fs.writeFileSync(script, text, { mode: 0o755 });
  return { text, script };
}

const start = (command: readonly string[], env: NodeJS.ProcessEnv): Run =>
  engine.place.exec(command, { ...engine.env, ...env });

it('pbs: qrerun starts a preempted task again', async () => {
  const { text, script } = scriptOf('array.pbs');
  // qrerun ends the job that calls it; the script has nothing left to do.
  engine.provide('qrerun', '#!/bin/sh\necho "$1" >> $told\n');
  expect(text).toMatch(/^#PBS -r y$/m);
  const indices = rangeIn(text, /^#PBS -J (\d+)-(\d+)$/m);
  await runArray(engine, {
    indices,
    start: (index) =>
      start(['bash', script], { PBS_JOBID: `12[${index}].server`, PBS_ARRAY_INDEX: String(index) }),
    preempt: signalAll('SIGTERM'),
    isAgain: (status, index) => status === 75 && engine.told().includes(`12[${index}].server\n`),
  });
  expect(engine.told()).toBe('12[1].server\n');
  await engine.expectDone('12', indices);
});

it('lsf: -Q starts a preempted task again, and -r a lost one', async () => {
  const { text, script } = scriptOf('array.lsf');
  expect(text).toMatch(/^#BSUB -r$/m);
  const again = / -Q "(\d+)"$/m.exec(text)?.[1];
  const warning = /^#BSUB -wa (\w+)$/m.exec(text)?.[1];
  const indices = rangeIn(text, /^#BSUB -J "melt\[(\d+)-(\d+)\]"$/m);
  await runArray(engine, {
    indices,
    start: (index) =>
      start(['bash', script], {
        LSB_JOBID: '12',
        LSB_JOBINDEX: String(index),
        LSB_JOBNAME: `melt[${index}]`,
      }),
    preempt: signalAll(`SIG${warning}` as NodeJS.Signals),
    isAgain: (status) => String(status) === again,
  });
  await engine.expectDone('12', indices);
});

it('htcondor: on_exit_remove keeps a preempted job in the queue', async () => {
  const text = engine.textOf('array.sub').replaceAll('$(ClusterId)', '12');
  const settings = new Map(
    [...text.matchAll(/^([\w]+) *= (.*)$/gm)].map(([, name = '', value = '']) => [name, value]),
  );
  const valueOf = (name: string): string =>
    (settings.get(name) ?? '').replaceAll(/\$\((\w+)\)/g, (_, other: string) => valueOf(other));
  expect(valueOf('on_exit_remove')).toBe('(ExitBySignal == False) && (ExitCode != 75)');
  const indices = rangeIn(`0-${Number(/^queue (\d+)$/m.exec(text)?.[1]) - 1}`, /(\d+)-(\d+)/);
  await runArray(engine, {
    indices,
    start: (index) => {
      const ad = path.join(engine.place.dir, `ad.${index}`);
      fs.writeFileSync(ad, `ClusterId = 12\nProcId = ${index}\nNumJobStarts = 0\n`);
      expect(path.basename(valueOf('executable'))).toBe('capture');
      return start(['capture', ...valueOf('arguments').split(' ')], { _CONDOR_JOB_AD: ad });
    },
    preempt: signalFirst(valueOf('kill_sig') as NodeJS.Signals),
    isAgain: (status) => status === 75 || status > 128,
  });
  await engine.expectDone('12', indices);
});

interface BatchRule {
  readonly action: string;
  readonly onExitCode?: string;
}
interface AwsDefinition {
  readonly retryStrategy: { readonly evaluateOnExit: readonly BatchRule[] };
  readonly containerProperties: { readonly command: readonly string[] };
}

it('aws-batch: evaluateOnExit retries a preempted task', async () => {
  const { retryStrategy, containerProperties } = parseYaml(
    engine.textOf('job-definition.yaml'),
  ) as AwsDefinition;
  // Batch retries what no rule matches.
  expect(retryStrategy.evaluateOnExit.at(-1)).toEqual({ onReason: '*', action: 'EXIT' });
  const indices = [0, 1, 2, 3];
  await runArray(engine, {
    indices,
    start: (index, attempt) => {
      // A volume of the container, which is another one in each attempt.
      const scratch = path.join(engine.place.dir, `scratch.${index}.${attempt}`);
      fs.mkdirSync(scratch);
      const command = containerProperties.command.map((word) => word.replace(/^\/scratch$/, scratch));
      return start(command, {
        AWS_BATCH_JOB_ID: `12:${index}`,
        AWS_BATCH_JOB_ARRAY_INDEX: String(index),
        AWS_BATCH_JOB_ATTEMPT: String(attempt + 1),
      });
    },
    preempt: signalFirst('SIGTERM'),
    isAgain: (status) =>
      retryStrategy.evaluateOnExit.find(({ onExitCode }) => onExitCode === String(status))?.action ===
      'RETRY',
  });
  await engine.expectDone('12', indices);
});

it.each([
  ['', []],
  ['12', ['--container-overrides', 'environment=[{name=RUN,value=12}]']],
])('aws-batch: the script submits an array, with RUN=%s', async (RUN, overrides) => {
  engine.provide(
    'aws',
    `#!/bin/sh\nprintf '%s\\t' "$@" >> $told; echo >> $told\ncase $2 in reg*) echo arn:melt:7 ;; *) echo job-13 ;; esac\n`,
  );
  const run = start(['sh', path.resolve('examples/aws-batch/submit.sh')], { RUN });
  expect(await run.status, run.stderr()).toBe(0);
  expect(run.stdout()).toBe('job-13\n');
  const [register = [], submit = []] = engine
    .told()
    .split('\n')
    .map((line) => line.split('\t').slice(0, -1));
  const output = (query: string): readonly string[] => ['--query', query, '--output', 'text'];
  const input = ['--cli-input-yaml', 'file://job-definition.yaml'];
  expect(register).toEqual(['batch', 'register-job-definition', ...input, ...output('jobDefinitionArn')]);
  const job = ['--job-name', 'melt', '--job-queue', 'spot', '--job-definition', 'arn:melt:7'];
  const size = ['--array-properties', 'size=100'];
  expect(submit).toEqual(['batch', 'submit-job', ...job, ...size, ...overrides, ...output('jobId')]);
});

it('google-batch: lifecyclePolicies retry a preempted task', async () => {
  const job = JSON.parse(
    engine.textOf('job.json').replaceAll('/mnt/disks/lab/melt', engine.store),
  ) as GoogleJob;
  expect(unknownKeys(job, GOOGLE_FIELDS)).toEqual([]);
  const [{ taskCount, taskSpec } = { taskCount: '0', taskSpec: undefined }] = job.taskGroups;
  const [policy] = taskSpec?.lifecyclePolicies ?? [];
  const { entrypoint = '', commands = [] } = taskSpec?.runnables[0]?.container ?? {};
  expect(policy?.action).toBe('RETRY_TASK');
  const indices = rangeIn(`0-${Number(taskCount) - 1}`, /(\d+)-(\d+)/);
  await runArray(engine, {
    indices,
    start: (index, attempt) =>
      start([entrypoint, ...commands], {
        BATCH_JOB_UID: 'melt-12',
        BATCH_JOB_ID: 'melt',
        BATCH_TASK_INDEX: String(index),
        BATCH_TASK_COUNT: taskCount,
        BATCH_TASK_RETRY_ATTEMPT: String(attempt),
      }),
    preempt: signalFirst('SIGTERM'),
    // If no status of the list matches, the task has failed.
    isAgain: (status) => policy?.actionCondition.exitCodes.includes(status) === true,
  });
  // A spot machine was taken away.
  expect(policy?.actionCondition.exitCodes).toContain(50_001);
  await engine.expectDone('melt-12', indices);
});

it('azure-batch: the script makes a job whose tasks are retried', async () => {
  const { script } = scriptOf('submit.sh');
  engine.provide(
    'az',
    `#!/bin/sh\necho "$@" | sed 's/file .* --output/file FILE --output/' >> $told.calls\nfor one; do [ ! -s "$one" ] || cat "$one" >> $told; done\n`,
  );
  const submit = start(['bash', script, 'melt-12'], {});
  expect(await submit.status, submit.stderr()).toBe(0);
  const tasks = JSON.parse(engine.told()) as readonly AzureTask[];
  expect(unknownKeys(tasks, AZURE_FIELDS)).toEqual([]);
  expect(fs.readFileSync(path.join(engine.place.dir, 'told.calls'), 'utf8')).toBe(
    'batch job create --id melt-12 --pool-id spot\n' +
      'batch task create --job-id melt-12 --json-file FILE --output none\n',
  );
  // The node mounts the share there.
  const mounts = path.join(engine.place.dir, 'mounts');
  fs.mkdirSync(path.join(mounts, 'lab'), { recursive: true });
  fs.symlinkSync(engine.store, path.join(mounts, 'lab/melt'));
  const indices = tasks.map((_, index) => index);
  await runArray(engine, {
    indices,
    start: (index) => {
      const { commandLine = '', environmentSettings = [] } = tasks[index] ?? {};
      const [, code = ''] = /^\/bin\/bash -c '(.*)'$/.exec(commandLine) ?? [];
      return start(['/bin/bash', '-c', code], {
        ...Object.fromEntries(environmentSettings.map(({ name, value }) => [name, value])),
        AZ_BATCH_NODE_MOUNTS_DIR: mounts,
        AZ_BATCH_JOB_ID: 'melt-12',
        AZ_BATCH_TASK_ID: `melt-${index}`,
      });
    },
    preempt: signalFirst('SIGTERM'),
    // Each failure is retried, so often.
    isAgain: (status, index) => status !== 0 && (tasks[index]?.constraints.maxTaskRetryCount ?? 0) > 0,
  });
  await engine.expectDone('melt-12', indices);
});

it('flux: the script submits again while a task was preempted', async () => {
  const { script } = scriptOf('submit.sh');
  // Starts each task in the background with the variables of Flux, and ends with the highest status.
  engine.provide(
    'flux',
    `#!/bin/bash
[ "$1" = submit ] || exit 2
while [ "$1" != capture ]; do case $1 in --cc=*) cc=\${1#--cc=} ;; esac; shift; done
[ $# -gt 0 ] || exit 2
pids= status=0
for index in $(seq \${cc%-*} \${cc#*-}); do
  FLUX_JOB_ID=f$$$index FLUX_JOB_CC=$index "$@" & pids="$pids $!"; echo "$index $!" >> $told
done
for pid in $pids; do wait $pid; one=$?; [ $one -le $status ] || status=$one; done
exit $status
`,
  );
  engine.hold(1, 2);
  const run = start(['bash', script], { RUN: '12' });
  for (const index of [1, 2]) await engine.untilHalf(index);
  const pidOf = (index: number): number =>
    Number(new RegExp(`^${index} (\\d+)$`, 'm').exec(engine.told())?.[1]);
  for (const index of [1, 2]) process.kill(pidOf(index), 'SIGTERM');
  expect(await run.status, run.stderr()).toBe(0);
  await engine.expectDone('12', [0, 1, 2, 3]);
});

it('apptainer: a preempted task is requeued, and its program runs in the container', async () => {
  const { text, script } = scriptOf('array.sbatch');
  engine.provide(
    'apptainer',
    '#!/bin/sh\n[ "$1" = exec ] || exit 2\necho "$2" >> $told\nshift 2\nexec "$@"\n',
  );
  const indices = rangeIn(text, /^#SBATCH --array=(\d+)-(\d+)$/m);
  engine.provide(
    'scontrol',
    '#!/bin/sh\ncase "$*" in "-o show job "*) echo "JobState=RUNNING Restarts=0" ;; *) echo "$@" >> $told.calls ;; esac\n',
  );
  const requeued = path.join(engine.place.dir, 'told.calls');
  await runArray(engine, {
    indices,
    start: (index) =>
      start(['bash', script], {
        SLURM_JOB_ID: String(20 + index),
        SLURM_ARRAY_JOB_ID: '12',
        SLURM_ARRAY_TASK_ID: String(index),
      }),
    preempt: signalAll('SIGTERM'),
    isAgain: (status, index) =>
      status === 75 && fs.readFileSync(requeued, 'utf8').includes(`requeue 12_${index}\n`),
  });
  expect(fs.readFileSync(requeued, 'utf8')).toBe('requeue 12_1\n');
  expect(new Set(engine.told().trim().split('\n'))).toEqual(
    new Set([path.join(engine.place.work, 'melt.sif')]),
  );
  await engine.expectDone('12', indices);
});

interface GoogleJob {
  readonly taskGroups: readonly {
    readonly taskCount: string;
    readonly taskSpec: {
      readonly runnables: readonly {
        readonly container: { readonly entrypoint: string; readonly commands: readonly string[] };
      }[];
      readonly lifecyclePolicies: readonly {
        readonly action: string;
        readonly actionCondition: { readonly exitCodes: readonly number[] };
      }[];
    };
  }[];
}
/** From the API reference, REST resource projects.locations.jobs. */
const GOOGLE_FIELDS = new Set(
  (
    'taskGroups allocationPolicy logsPolicy taskCount parallelism taskSpec runnables container imageUri entrypoint ' +
    'commands volumes nfs server remotePath mountPath computeResource cpuMilli memoryMib maxRunDuration maxRetryCount ' +
    'lifecyclePolicies action actionCondition exitCodes instances policy machineType provisioningModel destination'
  ).split(' '),
);

interface AzureTask {
  readonly commandLine: string;
  readonly environmentSettings: readonly { readonly name: string; readonly value: string }[];
  readonly constraints: { readonly maxTaskRetryCount: number };
}
/** From the API reference, Task - Add. */
const AZURE_FIELDS = new Set(
  'id commandLine environmentSettings name value constraints maxTaskRetryCount maxWallClockTime'.split(' '),
);

/** Names of fields, at any depth, that the reference does not have. */
function unknownKeys(value: unknown, known: ReadonlySet<string>): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  const here = Array.isArray(value) ? [] : Object.keys(value).filter((key) => !known.has(key));
  return [...here, ...Object.values(value).flatMap((inner) => unknownKeys(inner, known))];
}
