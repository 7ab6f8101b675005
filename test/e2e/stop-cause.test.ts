// Why an attempt was stopped: from the signal to its record, to `capture status` and to the report.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { array } from '../many/support.ts';
import { openPlace, type Place, sidecarOf, until } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

async function said(...args: readonly string[]): Promise<string> {
  const run = place.capture(args);
  await run.status;
  return run.stdout();
}

/** A job of Slurm that is at its time limit. */
function inSlurm(): NodeJS.ProcessEnv {
  fs.mkdirSync(`${place.dir}/bin`);
  const text = 'JobId=7 JobState=COMPLETING Reason=TimeLimit Restarts=0';
  fs.writeFileSync(`${place.dir}/bin/scontrol`, `#!/bin/sh\necho '${text}'\n`, { mode: 0o755 });
  return { SLURM_JOB_ID: '7', PATH: `${place.dir}/bin:${process.env['PATH']}` };
}

it('is what Slurm says, in status, JSON and report, once', async () => {
  const run = place.run(
    ['--index', '3', '--task-name', 't'],
    ['sh', '-c', 'echo runs; exec sleep 600'],
    inSlurm(),
  );
  await run.says('runs');
  run.child.kill('SIGTERM');
  expect(await run.status, run.stderr()).toBe(75);
  expect(run.stderr()).toContain("to be run again, exit 75: the job's time limit; stored");
  expect(await said('status', place.store)).toMatch(/^3 +preempted, time limit +1 /m);
  const how = "preempted: the task was ended by SIGTERM; capture exited 75; the job's time limit";
  expect(await said('status', place.store, '3')).toContain(`  ${how}\n`);
  const { indices } = JSON.parse(await said('status', place.store, '--json', '--details')) as {
    indices: object[];
  };
  expect(indices).toMatchObject([{ state: 'preempted', why: 'time limit' }]);
  const { attempts } = JSON.parse(await said('status', place.store, '3', '--json')) as { attempts: object[] };
  expect(attempts).toMatchObject([{ why: 'time limit', how }]);
});

it('is in the records from the signal on: it is known if no last one is written', async () => {
  const task = `trap 'echo 1 > k.chk; sleep 600' TERM; echo runs $$; while :; do sleep 0.1; done`;
  const run = place.run(['-k', 'k.chk', '--task-name', 't'], ['sh', '-c', task], inSlurm());
  await run.says('runs');
  run.child.kill('SIGTERM');
  const stop = (): unknown => place.records().at(-1)?.record.stop;
  await until(() => stop() !== undefined, 'a record names the cause');
  expect(stop()).toEqual({ why: 'time limit', reason: "the job's time limit" });
  process.kill(sidecarOf(run.pid) ?? 0, 'SIGKILL');
  run.child.kill('SIGKILL');
  process.kill(-Number(/runs (\d+)/.exec(run.stdout())?.[1]), 'SIGKILL');
  await run.status;
  const how = "running; it was asked to end: the job's time limit";
  expect(await said('status', place.store, '0')).toContain(how);
});

it('is what has stopped capture array, with the signal that this is all that is known of', async () => {
  const options = ['--array', '0-1', '--jobs', '2', '--task-name', 't'];
  const run = array(place, options, ['sh', '-c', `echo > ${place.dir}/runs{index}; exec sleep 600`]);
  await until(() => [0, 1].every((index) => fs.existsSync(`${place.dir}/runs${index}`)), 'both run');
  run.child.kill('SIGINT');
  expect(await run.status, run.stderr()).toBe(130);
  expect(await said('status', place.store)).toMatch(/^1 +preempted, SIGINT +1 /m);
  const how =
    'preempted: the task was ended by SIGTERM; capture exited 75; capture array got SIGINT, as by Ctrl-C';
  expect(await said('status', place.store, '0')).toContain(`  ${how}\n`);
});

it('is the signal alone if nobody says who sent it', async () => {
  const run = place.run(['--task-name', 't'], ['sh', '-c', 'echo runs; exec sleep 600']);
  await run.says('runs');
  run.child.kill('SIGTERM');
  expect(await run.status, run.stderr()).toBe(75);
  expect(await said('status', place.store, '0')).toContain(
    '  preempted: capture exited 75; SIGTERM, sender unknown\n',
  );
});
