// What is pure in this room: the server's own words, the rate, who uses the machine, and how a pause begins and ends.
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Pausing } from '../../../src/many/queue/pausing.ts';
import { idleByLogind, unusedForMs } from '../../../src/many/queue/when-idle.ts';
import { addLook, RateOf } from '../../../src/many/queue/rate.ts';
import { serverFacts } from '../../../src/many/queue/connect.ts';
import { until } from '../../e2e/support.ts';
import { testDir } from '../../support/work-dir.ts';
import { seen } from '../submissions.ts';

const REDIS =
  '# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n';

describe('what INFO says of a server', () => {
  it('that can hold a queue', () => {
    expect(serverFacts(REDIS)).toEqual({ policy: 'noeviction', hasAppendOnly: true, problem: undefined });
  });

  it.each([
    ['an old Redis', REDIS.replace('7.0.15', '5.0.7'), 'it is Redis 5.0.7'],
    ['a replica', REDIS.replace('master', 'slave'), 'replica'],
    ['a cluster', `${REDIS}cluster_enabled:1\r\n`, 'cluster'],
  ])('refuses %s', (_, info, why) => {
    expect(serverFacts(info).problem).toContain(why);
  });

  it('tells Valkey by its own version, whatever Redis it stands for', () => {
    expect(serverFacts('redis_version:5.0.0\r\nvalkey_version:8.1.0\r\n').problem).toBeUndefined();
  });

  it('tells that there is no append-only file, and another policy', () => {
    const info = REDIS.replace('aof_enabled:1', 'aof_enabled:0').replace('noeviction', 'allkeys-lru');
    expect(serverFacts(info)).toMatchObject({ policy: 'allkeys-lru', hasAppendOnly: false });
  });
});

describe('the rate of a submission', () => {
  it('is that since it was submitted, as long as nothing else is known', () => {
    const rate = new RateOf(0, 100);
    rate.add(600_000, 50);
    expect(rate.perMinute()).toBe(5);
    expect(rate.leftMs(50)).toBe(600_000);
  });

  it('is unknown as long as nothing has ended', () => {
    const rate = new RateOf(0, 100);
    rate.add(60_000, 100);
    expect(rate.perMinute()).toBeUndefined();
    expect(rate.leftMs(100)).toBeUndefined();
  });

  it('is no other because a task has ended between two looks', () => {
    const rate = new RateOf(0, 1000);
    rate.add(3_600_000, 940);
    rate.add(3_602_000, 938);
    expect(rate.perMinute()).toBeCloseTo(62 / 60.03, 1);
  });

  it('counts only what has ended since the queue was filled, not what was done before', () => {
    const again = seen({ size: 1000, filled: { atMs: 60_000, count: 100 } }, { waiting: 90 });
    const rates = new Map<string, RateOf>();
    addLook(rates, 120_000, [again]);
    expect(rates.get('melt')?.perMinute()).toBe(10);
  });

  it('forgets what is older than ten minutes', () => {
    const rate = new RateOf(0, 1000);
    rate.add(3_600_000, 900);
    rate.add(3_660_000, 890);
    expect(rate.perMinute()).toBe(10);
  });
});

describe('logind says that this machine', () => {
  const since = (ms: number): string => `IdleHint=yes\nIdleSinceHint=${ms * 1000}\nNCurrentSessions=1\n`;

  it('is used', () =>
    expect(idleByLogind('IdleHint=no\nIdleSinceHint=0\nNCurrentSessions=1\n', 5000)).toBe(0));
  it('is idle since an instant', () => expect(idleByLogind(since(1000), 5000)).toBe(4000));
  it('has no session', () =>
    expect(idleByLogind('IdleHint=no\nIdleSinceHint=0\nNCurrentSessions=0\n', 5000)).toBe(Infinity));
  it('says nothing', () => expect(idleByLogind('', 5000)).toBe(Infinity));

  it('and hears nothing of us but the environment that it is given', async () => {
    const dir = testDir();
    onTestFinished(() => dir.remove());
    fs.writeFileSync(path.join(dir.path, 'loginctl'), '#!/bin/sh\nenv >"${0%/*}/env"\n', { mode: 0o755 });
    await unusedForMs(5000, { PATH: `${dir.path}:/usr/bin:/bin`, GIVEN: 'yes' }, new Set());
    const names = fs.readFileSync(path.join(dir.path, 'env'), 'utf8').matchAll(/^(\w+)=/gm);
    const own = new Set(['_', 'OLDPWD', 'PWD', 'SHLVL']);
    expect(
      [...names]
        .map(([, name = '']) => name)
        .filter((name) => !own.has(name))
        .toSorted(),
    ).toEqual(['GIVEN', 'PATH']);
  });
});

describe('a pause', () => {
  function paused(): { readonly pausing: Pausing; readonly did: string[] } {
    const did: string[] = [];
    const runner = {
      pause: (isPaused: boolean) => void did.push(isPaused ? 'hold' : 'go on'),
      freeze: () => void did.push('freeze'),
      thaw: () => void did.push('thaw'),
      giveBack: () => void did.push('give back'),
    };
    const pausing = new Pausing({ runner, prepared: { hold: () => undefined } });
    return { pausing, did };
  }

  it('gives back what runs, and starts nothing until it is resumed', () => {
    const { pausing, did } = paused();
    pausing.pause('person', 'checkpoint');
    pausing.resume('person');
    expect(did).toEqual(['hold', 'give back', 'thaw', 'go on']);
  });

  it('that freezes goes on where it was', () => {
    const { pausing, did } = paused();
    pausing.pause('person', 'stop');
    pausing.resume('person');
    expect(did).toEqual(['hold', 'freeze', 'thaw', 'go on']);
  });

  it('ends by itself after its time', async () => {
    const { pausing, did } = paused();
    pausing.pause('person', 'checkpoint', 20);
    await until(() => !pausing.isPaused, 'it is over');
    expect(did.at(-1)).toBe('go on');
  });

  it('has two reasons, and lasts as long as one of them', () => {
    const { pausing, did } = paused();
    pausing.pause('use', 'checkpoint');
    pausing.pause('person', 'checkpoint');
    pausing.resume('use');
    expect(pausing.isPaused).toBe(true);
    expect(did).not.toContain('go on');
    pausing.resume('person');
    expect(did.at(-1)).toBe('go on');
  });

  it('that is resumed and does not stand does nothing', () => {
    const { pausing, did } = paused();
    pausing.resume('person');
    expect(did).toEqual([]);
  });
});
