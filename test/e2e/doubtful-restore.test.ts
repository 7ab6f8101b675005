// A checkpoint that is not known to be whole is restored when there is no better one, and never without a word.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { told, unstamped } from '../support/messages.ts';
import { openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['--task-name', 't', '-k', 'k'];
/** Dies in the middle of its only checkpoint. */
const TORN = ['bash', '-c', 'exec 3>k; printf half >&3; kill -9 $$'];
const DOUBT =
  'checkpoint 1-1 is restored, as no better one is left, and may be half-written: a dying process may have closed a file of it, or --verify-checkpoint refused it';
const HINT = '--no-restore starts from nothing; --verify-checkpoint has a check of your own decide';

describe('a checkpoint that may be half-written', () => {
  beforeEach(async () => {
    await place.run(OPTIONS, TORN).status;
    place.freshWork();
  });

  it('is restored with a warning at each start', async () => {
    for (let start = 0; start < 2; start += 1) {
      const next = place.run(OPTIONS, ['true']);
      expect(await next.status, next.stderr()).toBe(0);
      expect(unstamped(next.stderr())).toContain(`capture: warning: ${DOUBT}\n  try: ${HINT}\n`);
      expect(next.stderr()).toContain('resumed from checkpoint 1-1');
      place.freshWork();
    }
  });

  it.each([['restore'], ['restore', '--handoff']])('by capture %s, too', async (...words) => {
    const restored = place.capture([...words, '--to', place.store, ...OPTIONS]);
    expect(await restored.status, restored.stderr()).toBe(0);
    expect(unstamped(restored.stderr())).toContain(`capture: warning: ${DOUBT}\n  try: ${HINT}\n`);
  });

  it('is shown so by --dry-run, in text and in JSON lines', async () => {
    const dry = place.run([...OPTIONS, '--dry-run'], ['true']);
    expect(await dry.status, dry.stderr()).toBe(0);
    expect(dry.stdout()).toContain(`${DOUBT}\n  try: ${HINT}\nrestore: checkpoint 1-1 of `);
    const json = place.run([...OPTIONS, '--dry-run', '--log-format', 'json'], ['true']);
    expect(await json.status, json.stderr()).toBe(0);
    const lines = told(json.stdout(), 'dry-run').map(({ msg }) => msg);
    expect(lines).toEqual(
      dry
        .stdout()
        .trim()
        .split('\n')
        .filter((line) => !line.startsWith('  try: ')),
    );
    expect(told(json.stdout())).toContainEqual(
      expect.objectContaining({ msg: DOUBT, hint: HINT, level: 30 }),
    );
  });

  it('is restored without one when a check of the user has passed it', async () => {
    const next = place.run([...OPTIONS, '--verify-checkpoint', 'true'], ['true']);
    expect(await next.status, next.stderr()).toBe(0);
    expect(next.stderr()).toContain('resumed from checkpoint 1-1');
    expect(next.stderr()).not.toContain('half-written');
  });
});

it('a checkpoint that lacks a file is restored with a warning, too', async () => {
  const task = 'echo a > k; ln -s /etc l';
  expect(await place.run([...OPTIONS, '-k', 'l'], ['bash', '-c', task]).status).toBe(74);
  expect(place.records().at(-1)?.record.generations[0]?.incomplete).toBe(true);
  place.freshWork();
  const next = place.run(OPTIONS, ['true']);
  expect(await next.status, next.stderr()).toBe(0);
  expect(next.stderr()).toContain(' is restored, as no better one is left, and is incomplete: ');
});

describe('the hint to trust an exit status', () => {
  it('is given with the status that the task has ended with', async () => {
    // The fork ends within the second before the close: then nothing says who closed the file.
    const run = place.run(
      [...OPTIONS, '-r', 'r'],
      ['bash', '-c', '/bin/true; echo 1 > k; echo r > r; exit 3'],
    );
    expect(await run.status).toBe(3);
    expect(run.stderr()).toContain(
      'if the task has always closed its files itself when it ends with 3: --trust-exit 3',
    );
    expect(run.stderr()).toContain(
      "try: call 'capture flush' after each step: it vouches for what is closed by then",
    );
  });

  it.each([
    ['a signal has ended the task', 'kill -9 $$', 137],
    ['a shell passes on that a signal has', 'exit 137', 137],
  ])('is not given when %s', async (_, end, status) => {
    const torn = `bash -c 'exec 3>k 4>r; echo 1 >&3; echo 1 >&4; kill -9 $$'; until ls ../store/.capture/t/0 | grep -q checkpoint; do sleep 0.02; done; ${end}`;
    const run = place.run([...OPTIONS, '-r', 'r'], ['bash', '-c', torn]);
    expect(await run.status).toBe(status);
    expect(run.stderr()).toContain('half-written');
    expect(run.stderr()).not.toContain('--trust-exit');
  });
});
