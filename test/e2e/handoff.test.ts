// An attempt that goes from `capture restore --handoff` to `capture watch`, and from a watch that died to the next.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { committed, openPod, told, type Pod } from './pod.ts';
import { openPlace, until, type Place } from './support.ts';

let place: Place;
let pod: Pod;
beforeEach(() => {
  place = openPlace();
  pod = openPod(place);
});
afterEach(() => place.close());

const write = (name: string, text: string): void => fs.writeFileSync(place.at(name), text);
const term = async (run: { pid: number; status: Promise<number> }): Promise<number> => {
  process.kill(run.pid, 'SIGTERM');
  return run.status;
};

/** An attempt without anything handed over: a set of two checkpoint files, stored by a pod that then goes. */
async function firstPod(attempt = 1): Promise<void> {
  const watch = await pod.watch();
  write('a.chk', 'a of 1');
  write('b.chk', 'b of 1');
  await committed(place, attempt);
  expect(await term(watch)).toBe(0);
  place.freshWork();
}

describe('an attempt that was handed over', () => {
  it('is gone on with: its number, its run, and what was restored counts as stored', async () => {
    await firstPod();
    const restore = await pod.handOff();
    expect(await restore.status).toBe(0);
    expect(restore.stderr()).toContain(
      'attempt 2 is ready for capture watch: restored checkpoint 1-1 (2 files',
    );
    expect(fs.readFileSync(place.at('b.chk'), 'utf8')).toBe('b of 1');
    const watch = await pod.watch();
    expect(watch.stderr()).toContain('it goes on from capture restore --handoff');
    write('a.chk', 'a of 2');
    expect(await committed(place, 2)).toEqual({ 'a.chk': 'a.chk.pod.0.2-1', 'b.chk': 'b.chk.pod.0.1-1' });
    expect(await term(watch)).toBe(0);
    expect(
      new Set(place.records().flatMap(({ record }) => (record.attempt === 2 ? [record.runToken] : []))).size,
    ).toBe(1);
    expect(told(place).filter((one) => one.startsWith('3'))).toEqual([]);
  });

  it('has what a task closed before the watch began', async () => {
    await pod.handOff();
    write('early.dat', 'early');
    await pod.watch();
    await until(() => place.keys().includes('early.dat.0'), 'the file that was closed before');
    expect(place.text('early.dat.0')).toBe('early');
  });

  it('is pushed no more than it was restored: nothing that nobody touched is sent', async () => {
    await firstPod();
    await pod.handOff();
    const before = place.keys();
    expect(await term(await pod.watch())).toBe(0);
    expect(place.keys()).toEqual(before);
  });

  it('is lost with its pod: the next one claims the next attempt and restores the same', async () => {
    await firstPod();
    await pod.handOff();
    place.freshWork();
    const again = await pod.handOff();
    expect(again.stderr()).toContain('attempt 3 is ready for capture watch: restored checkpoint 1-1');
  });

  it('is refused by a watch that is somebody else', async () => {
    await pod.handOff(['--index', '3']);
    const watch = pod.begin(['--index', '4']);
    expect(await watch.status).toBe(64);
    expect(watch.stderr()).toContain("was not for this capture watch: --index was '3' and is '4'");
    expect(watch.stderr()).toContain('the same --index');
  });

  it('ends with 76 when another pod has taken the index over meanwhile', async () => {
    await pod.handOff();
    const old = place.work;
    place.freshWork();
    await pod.handOff();
    const watch = pod.begin(['--workdir', old]);
    expect(await watch.status).toBe(76);
    expect(watch.stderr()).toContain('attempt 2 has taken this index over');
    expect(told(place).filter((one) => one.startsWith('1'))).toEqual(['1 started', '1 started']);
  });

  it('is forgotten by a plain restore, and by a start of the machine', async () => {
    await firstPod();
    await pod.handOff();
    const file = place.at('.capture/attempt.json');
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/"boot":"[^"]*"/, '"boot":"another"'));
    expect((await pod.watch()).stderr()).toContain(
      'there is no capture restore --handoff to go on from: attempt 3 begins',
    );
    place.freshWork();
    await pod.handOff();
    const plain = place.capture(['restore', '--to', place.store, '--task-name', 'pod', '-k', '*.chk']);
    expect(await plain.status).toBe(0);
    expect((await pod.watch()).stderr()).toContain(
      'there is no capture restore --handoff to go on from: attempt 5 begins',
    );
  });
});

describe('an attempt whose start fails', () => {
  it('has a last record if it cannot be handed over', async () => {
    fs.mkdirSync(place.at('.capture/attempt.json/x'), { recursive: true });
    fs.chmodSync(place.at('.capture'), 0o700);
    const restore = await pod.handOff();
    expect(await restore.status, restore.stderr()).toBe(64);
    expect(place.records().at(-1)?.record).toMatchObject({ kind: 'failed', attempt: 1, end: { status: 64 } });
  });

  it('has none if the next watch goes on with it', async () => {
    fs.mkdirSync(`${place.dir}/blocked/x`, { recursive: true });
    const refused = pod.begin(['--control', `${place.dir}/blocked`]);
    expect(await refused.status, refused.stderr()).not.toBe(0);
    expect(told(place)).not.toContain('1 failed');
    const watch = await pod.watch();
    write('a.chk', 'a');
    write('b.chk', 'b');
    await committed(place, 1);
    expect(await term(watch)).toBe(0);
  });
});

describe('a watch to which nothing was handed over', () => {
  it('begins an attempt of its own, and says which stored checkpoint was not restored', async () => {
    expect((await pod.watch()).stderr()).toContain(
      'there is no capture restore --handoff to go on from: attempt 1 begins with the files that are here\n',
    );
    place.freshWork();
    await firstPod(2);
    const third = await pod.watch();
    expect(third.stderr()).toMatch(
      /attempt 3 begins with the files that are here, and the stored checkpoint 2-1 was not/,
    );
    expect(third.stderr()).toContain('try: run capture restore --handoff first');
  });
});

describe('a watch whose container starts again', () => {
  it('after a death goes on with the attempt, and stores what was closed meanwhile', async () => {
    await firstPod();
    await pod.handOff();
    const first = await pod.watch();
    write('one.dat', 'one');
    await until(() => place.keys().includes('one.dat.0'), 'the first result');
    process.kill(first.pid, 'SIGKILL');
    expect(await first.status).toBe(137);
    write('two.dat', 'two');
    write('a.chk', 'a of 2');
    const second = await pod.watch();
    expect(second.stderr()).toContain('the sidecar was restarted');
    await until(() => place.keys().includes('two.dat.0'), 'what was closed while nobody watched');
    expect((await committed(place, 2))['a.chk']).toBe('a.chk.pod.0.2-1001');
    expect(await term(second)).toBe(0);
    expect(told(place).at(-1)).toBe('2 ended');
  });

  it('after a SIGTERM begins another attempt: the task may be at work still', async () => {
    const first = await pod.watch();
    write('one.dat', 'one');
    await until(() => place.keys().includes('one.dat.0'), 'the first result');
    const atMs = Date.now();
    await until(() => Date.now() - atMs > 200, 'the time of a signal on its way');
    expect(await term(first)).toBe(0);
    const second = await pod.watch();
    expect(second.stderr()).toContain('attempt 2');
    write('two.dat', 'two');
    await until(() => place.keys().includes('two.dat.0'), 'the second result');
  });
});

describe('the probe', () => {
  it('says yes while capture watches, and no at once before and after', async () => {
    expect(await pod.probe()).toBe(69);
    const watch = await pod.watch();
    expect(await pod.probe()).toBe(0);
    expect(await term(watch)).toBe(0);
    expect(await pod.probe()).toBe(69);
  });

  it('says no when the sidecar hangs', async () => {
    const watch = await pod.watch();
    process.kill(watch.pid, 'SIGSTOP');
    try {
      const startedMs = Date.now();
      const probe = place.capture(['flush', '--ping', '--control', pod.control]);
      expect(await probe.status).toBe(69);
      // Its own bound is 5 s; a flush would wait for 32.
      expect(Date.now() - startedMs).toBeLessThan(25_000);
      expect(probe.stderr()).toContain('it hangs');
    } finally {
      process.kill(watch.pid, 'SIGCONT');
    }
  });
});
