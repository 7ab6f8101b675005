import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { OutOfMemory } from '../../src/model/format/out-of-memory.ts';
import { countKills, killsSince } from '../../src/native/out-of-memory.ts';
import { withFilesAlone } from '../support/files-alone.ts';

const MIB = 2 ** 20;

/** A cgroup of version 2 as it is at one instant; `limit` in MiB. */
interface Cgroup {
  readonly kills?: number;
  readonly reached?: number;
  readonly limit?: number;
  readonly peak?: number;
  readonly pids?: readonly number[];
}

type Cgroups = Readonly<Record<string, Cgroup>>;

const V2_FILES = (at: Cgroup): Record<string, string> => ({
  'memory.events': `low 0\nhigh 0\nmax 9\noom ${at.reached ?? 0}\noom_kill ${at.kills ?? 0}\noom_group_kill 0\n`,
  'memory.max': at.limit === undefined ? 'max\n' : `${at.limit * MIB}\n`,
  ...(at.peak === undefined ? {} : { 'memory.peak': `${at.peak * MIB}\n` }),
});
const V1_FILES = (at: Cgroup): Record<string, string> => ({
  'memory.oom_control': `oom_kill_disable 0\nunder_oom 0\noom_kill ${at.kills ?? 0}\n`,
  'memory.limit_in_bytes': at.limit === undefined ? '9223372036854771712\n' : `${at.limit * MIB}\n`,
  'memory.max_usage_in_bytes': `${(at.peak ?? 0) * MIB}\n`,
});

const VERSIONS = {
  v1: { membership: '4:memory:/job/task\n0::/', root: '/sys/fs/cgroup/memory', files: V1_FILES },
  v2: { membership: '0::/job/task', root: '/sys/fs/cgroup', files: V2_FILES },
} as const;

function inCgroups<T>(version: keyof typeof VERSIONS, cgroups: Cgroups, read: () => T): T {
  const { membership, root, files } = VERSIONS[version];
  const all: Record<string, string> = { '/proc/self/cgroup': membership };
  for (const [dir, at] of Object.entries(cgroups)) {
    for (const [name, text] of Object.entries(files(at))) all[path.join(root, dir, name)] = text;
    const pids = [process.pid, ...(at.pids ?? [])];
    all[path.join(root, dir, 'cgroup.procs')] = `${pids.join('\n')}\n`;
    for (const pid of at.pids ?? []) all[`/proc/${pid}/stat`] = `${pid} (other) S 1 ${pid} 0 0`;
  }
  return withFilesAlone(all, read);
}

function killed(
  version: keyof typeof VERSIONS,
  before: Cgroups,
  after: Cgroups,
  hasLostOthers = false,
): OutOfMemory | undefined {
  const counts = inCgroups(version, before, countKills);
  return inCgroups(version, after, () => killsSince(counts, hasLostOthers));
}

describe.each(['v1', 'v2'] as const)('what the kernel killed in a cgroup (%s)', (version) => {
  it('is what its count has risen by', () => {
    const before = { 'job/task': { kills: 2, reached: 2, limit: 400, peak: 90 } };
    const after = { 'job/task': { kills: 3, reached: 3, limit: 400, peak: 399 } };
    expect(killed(version, before, before)).toBeUndefined();
    expect(killed(version, before, after)).toEqual({
      kills: 1,
      limitBytes: 400 * MIB,
      peakMemoryBytes: 399 * MIB,
      shared: undefined,
    });
  });

  it('counts in our own, and the limit that was reached is that of the job above', () => {
    const before = { job: { limit: 800, peak: 20 }, 'job/task': { limit: 900, peak: 10 } };
    const after = {
      job: { kills: version === 'v1' ? 0 : 1, reached: 1, limit: 800, peak: 800 },
      'job/task': { kills: 1, limit: 900, peak: 700 },
    };
    expect(killed(version, before, after)).toMatchObject({
      kills: 1,
      limitBytes: 800 * MIB,
      peakMemoryBytes: 800 * MIB,
      shared: undefined,
    });
  });

  it('names no limit if none was reached: the machine itself was full', () => {
    const before = { 'job/task': { limit: 400, peak: 90 } };
    const after = { 'job/task': { kills: 1, limit: 400, peak: 100 } };
    expect(killed(version, before, after)).toEqual({
      kills: 1,
      limitBytes: undefined,
      peakMemoryBytes: undefined,
      shared: undefined,
    });
  });

  it.each([
    ['when it begins', [77], []],
    ['when it ends', [], [77]],
    ['from another PID namespace', [0], [0]],
  ])('may be of another program that is there, too: %s', (_, then, now) => {
    const before = { 'job/task': { pids: then } };
    const after = { 'job/task': { kills: 1, pids: now } };
    expect(killed(version, before, after)).toMatchObject({ kills: 1, shared: true });
  });

  it('may be a process of capture that has died', () => {
    const before = { 'job/task': {} };
    expect(killed(version, before, { 'job/task': { kills: 1 } }, true)).toMatchObject({ shared: true });
  });
});

it('a process of the job in another cgroup counts, as one that may be of another task', () => {
  const before = { job: { limit: 800 }, 'job/task': {} };
  const after = { job: { kills: 1, reached: 1, limit: 800 }, 'job/task': {} };
  expect(killed('v2', before, after)).toEqual({
    kills: 1,
    limitBytes: 800 * MIB,
    peakMemoryBytes: undefined,
    shared: true,
  });
});

it('without a cgroup that counts, the count of the machine is taken', () => {
  const at = (kills: number): Record<string, string> => ({
    '/proc/self/cgroup': '0::/',
    '/proc/vmstat': `nr_free_pages 5\noom_kill ${kills}\n`,
  });
  const before = withFilesAlone(at(4), countKills);
  expect(withFilesAlone(at(4), () => killsSince(before, false))).toBeUndefined();
  expect(withFilesAlone(at(6), () => killsSince(before, false))).toEqual({
    kills: 2,
    limitBytes: undefined,
    peakMemoryBytes: undefined,
    shared: true,
  });
  expect(withFilesAlone({}, () => killsSince(withFilesAlone({}, countKills), false))).toBeUndefined();
});
