// --notify: somebody is told how a run ended, and the run ends the same whether or not that works.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Listener, openListener } from '../notify/listener.ts';
import { openPlace, type Place } from './support.ts';

let place: Place;
let listener: Listener;
beforeEach(async () => {
  place = openPlace();
  listener = await openListener();
});
afterEach(async () => {
  place.close();
  await listener.close();
});

describe('a run with --notify', () => {
  const capture = (...task: readonly string[]): Promise<number> =>
    place.run(['-r', 'r.dat', '--index', '3', '--task-name', 't', '--notify', listener.url], task).status;

  it('tells that it is done, with where its results are', async () => {
    expect(await capture('sh', '-c', 'echo 1 > r.dat')).toBe(0);
    expect(listener.got).toEqual([
      expect.objectContaining({
        event: 'done',
        text: 't 3 is done',
        index: '3',
        status: 0,
        store: `file://${place.store}`,
      }),
    ]);
  });

  it('tells with which status it failed, and also that it could not start', async () => {
    expect(await capture('sh', '-c', 'exit 5')).toBe(5);
    expect(await capture('no-such-program')).toBe(127);
    expect(listener.got.map(({ event, status }) => [event, status])).toEqual([
      ['failed', 5],
      ['failed', 127],
    ]);
  });

  it('tells nothing when it asks to be run again', async () => {
    const run = place.run(
      ['-r', 'r.dat', '--again-status', '85', '--notify', listener.url],
      ['sh', '-c', 'exit 85'],
    );
    expect(await run.status).toBe(75);
    expect(listener.got).toEqual([]);
  });

  it('ends the same if nobody is there to be told, with a warning that names no secret', async () => {
    listener.answers = [410];
    const run = place.run(['-r', 'r.dat', '--notify', listener.url], ['sh', '-c', 'echo 1 > r.dat']);
    expect(await run.status).toBe(0);
    expect(run.stderr()).toContain('--notify did not work: the answer was 410');
    expect(run.stderr()).not.toContain('secret');
  });

  it('keeps the status of the run if a signal ends the telling', async () => {
    const task = ['sh', '-c', 'echo 1 > r.dat'];
    const run = place.run(['-r', 'r.dat', '--notify', 'echo telling >&2; sleep 60'], task);
    await run.says('telling');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(0);
    expect(run.stderr()).toContain('--notify did not work');
  });
});
