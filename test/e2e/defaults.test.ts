// Files of defaults in a whole run: also for the commands on the store, and nothing of them in the task's environment.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('the user’s file says where the store is', async () => {
  const home = path.join(place.dir, 'conf');
  fs.mkdirSync(home);
  fs.writeFileSync(
    path.join(home, 'capture.yaml'),
    `to: ${place.store}\nnamespace: ada\nresults: [env.dat]\ntask-name: t\n`,
  );
  const env = { XDG_CONFIG_HOME: home };
  const run = place.capture(['--index=3', '--', 'sh', '-c', 'env >env.dat'], env);
  expect(await run.status, run.stderr()).toBe(0);
  const status = place.capture(['cat', `${place.store}/ada`, '3', 'env.dat'], env);
  expect(await status.status, status.stderr()).toBe(0);
  expect(status.stdout()).toContain('CAPTURED_');
  expect(status.stdout()).not.toMatch(/^CAPTURE_(TO|RESULTS|TASK_NAME)=/m);
  const wait = place.capture(['wait', '--array=3'], env);
  expect(await wait.status, wait.stderr()).toBe(0);
});

it('a file that CAPTURE_CONFIG names must be there', async () => {
  const run = place.capture(['--index=3', '-r', 'r', '--', 'touch', 'started'], {
    CAPTURE_CONFIG: 'none.yaml',
  });
  expect(await run.status).toBe(64);
  expect(run.stderr()).toContain("cannot read the defaults in 'none.yaml'");
  expect(fs.existsSync(place.at('started'))).toBe(false);
});

it('all tasks of an array have the defaults of their runner, once', async () => {
  const home = path.join(place.dir, 'conf');
  fs.mkdirSync(home);
  fs.writeFileSync(path.join(home, 'capture.yaml'), `to: ${place.store}\nnamespace: ada\nresults: [r.dat]\n`);
  const run = place.capture(
    ['array', '--array=0-1', '--task-name=t', '--', 'sh', '-c', 'echo {index} >r.dat'],
    {
      XDG_CONFIG_HOME: home,
    },
  );
  expect(await run.status, run.stderr()).toBe(0);
  expect(
    place
      .keys()
      .filter((key) => key.includes('r.dat'))
      .toSorted(),
  ).toEqual(['ada/r.dat.0', 'ada/r.dat.1']);
});
