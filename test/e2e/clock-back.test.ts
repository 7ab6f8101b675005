// The time of day is set back by an hour (NTP) while something waits.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPlace, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('a close that is held for two seconds is stored in time although the clock is set back by an hour', async () => {
  const step = `${place.dir}/step`;
  const end = `${place.dir}/end`;
  const env = {
    NODE_OPTIONS: `--require=${path.resolve('test/support/step-clock.cjs')}`,
    STEP_CLOCK: step,
  };
  const script = `echo one > r; while ! [ -e ${step}.ready ]; do sleep 0.1; done; echo two > r; while ! [ -e ${end} ]; do sleep 0.1; done`;
  const run = place.run(['--results', 'r'], ['sh', '-c', script], env);
  const stored = (): string => (place.keys().includes('r.0') ? place.text('r.0') : '');
  await until(() => stored() === 'one\n', 'the first close is stored');
  fs.writeFileSync(`${step}.ready`, '');
  // The second close waits now, as it would replace the first.
  await until(() => fs.readFileSync(place.at('r'), 'utf8') === 'two\n', 'the second close');
  fs.writeFileSync(step, '');
  await until(() => stored() === 'two\n', 'the second close is stored', 40_000);
  fs.writeFileSync(end, '');
  expect(await run.status).toBe(0);
}, 90_000);
