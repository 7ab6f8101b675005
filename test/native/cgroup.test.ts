import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { cgroupCores, cgroupMemory, memoryPressure, type MemoryUse } from '../../src/native/cgroup.ts';
import { withFilesAlone } from '../support/files-alone.ts';

/** What `read` finds where we are in these cgroups. `files`: by their paths, below the mount or absolute. */
function inCgroups<T>(membership: string, files: Readonly<Record<string, string>>, read: () => T): T {
  const mounted = Object.entries(files).map(([name, text]) => [path.resolve('/sys/fs/cgroup', name), text]);
  return withFilesAlone({ '/proc/self/cgroup': membership, ...Object.fromEntries(mounted) }, read);
}

/** Files of cgroups by their directories, each `limit used inactive`. */
function memoryOf(
  version: 'v1' | 'v2',
  membership: string,
  cgroups: Readonly<Record<string, readonly [limit: string, used: number, inactive?: number]>>,
): MemoryUse | undefined {
  const files: Record<string, string> = {};
  for (const [name, [limit, used, inactive]] of Object.entries(cgroups)) {
    const at = path.join(version === 'v1' ? 'memory' : '', name);
    files[path.join(at, version === 'v1' ? 'memory.limit_in_bytes' : 'memory.max')] = `${limit}\n`;
    files[path.join(at, version === 'v1' ? 'memory.usage_in_bytes' : 'memory.current')] = `${used}\n`;
    if (inactive !== undefined) {
      const total = version === 'v1' ? `inactive_file 7\ntotal_inactive_file ${inactive}` : '';
      files[path.join(at, 'memory.stat')] = `anon 1\n${total || `inactive_file ${inactive}`}\n`;
    }
  }
  return inCgroups(membership, files, cgroupMemory);
}

const NONE = { v1: '9223372036854771712', v2: 'max' } as const;
const MEMBERSHIP = {
  v1: '4:memory:/slurm/job_7/step_0\n1:cpu:/\n0::/',
  v2: '0::/slurm/job_7/step_0',
} as const;

describe.each(['v1', 'v2'] as const)('the memory that cgroups (%s) give', (version) => {
  it('is that of our own cgroup', () => {
    const own = { 'slurm/job_7/step_0': ['1000', 600] } as const;
    expect(memoryOf(version, MEMBERSHIP[version], own)).toEqual({ used: 600, limit: 1000 });
  });

  it('is that of the fullest above it, such as a job or a pod that limits all its steps', () => {
    const all = {
      slurm: ['100000', 5000],
      'slurm/job_7': ['1000', 900],
      'slurm/job_7/step_0': [NONE[version], 600],
    } as const;
    expect(memoryOf(version, MEMBERSHIP[version], all)).toEqual({ used: 900, limit: 1000 });
  });

  it('counts page cache that the kernel would drop first as free', () => {
    const own = { 'slurm/job_7/step_0': ['1000', 950, 700] } as const;
    expect(memoryOf(version, MEMBERSHIP[version], own)).toEqual({ used: 250, limit: 1000 });
  });

  it('is found at the mount where a container sees no more of the path', () => {
    expect(memoryOf(version, MEMBERSHIP[version], { '.': ['1000', 500] })).toEqual({
      used: 500,
      limit: 1000,
    });
  });

  it('is unknown without a limit', () => {
    const own = { 'slurm/job_7/step_0': [NONE[version], 600] } as const;
    expect(memoryOf(version, MEMBERSHIP[version], own)).toBeUndefined();
    expect(memoryOf(version, 'no cgroups\n', {})).toBeUndefined();
  });
});

it('a cgroup namespace that begins below us is no way out of the mount', () => {
  expect(memoryOf('v2', '0::/../../x', { x: ['1000', 1] })).toEqual({ used: 1, limit: 1000 });
});

describe('the cores that cgroups give', () => {
  it.each([
    ['0::/pod/box', { 'pod/box/cpu.max': '150000 100000\n', 'pod/cpu.max': 'max 100000\n' }, 1.5],
    ['0::/pod/box', { 'pod/box/cpu.max': 'max 100000\n', 'pod/cpu.max': '50000 100000\n' }, 0.5],
    ['0::/pod', { 'pod/cpu.max': 'max 100000\n' }, Infinity],
    [
      '3:cpu,cpuacct:/box\n0::/',
      { 'cpu/box/cpu.cfs_quota_us': '300000\n', 'cpu/box/cpu.cfs_period_us': '100000\n' },
      3,
    ],
    [
      '3:cpu,cpuacct:/box\n0::/',
      { 'cpu/box/cpu.cfs_quota_us': '-1\n', 'cpu/box/cpu.cfs_period_us': '100000\n' },
      Infinity,
    ],
    ['', {}, Infinity],
  ])('%j: the least of our own and those above it', (membership, files, cores) => {
    expect(inCgroups(membership, files, cgroupCores)).toBe(cores);
  });
});

describe('how much a cgroup waits for memory', () => {
  const PRESSURE =
    'some avg10=40.00 avg60=0 avg300=0 total=1\nfull avg10=12.34 avg60=0.00 avg300=0.00 total=1\n';

  it('is what it says itself of the last ten seconds', () => {
    expect(inCgroups('0::/pod/box', { 'pod/box/memory.pressure': PRESSURE }, memoryPressure)).toBe(12.34);
  });

  it('is that of the machine where the cgroup does not tell', () => {
    const pod = { 'pod/memory.max': 'max\n' };
    expect(inCgroups('0::/pod', pod, memoryPressure)).toBeUndefined();
    const machine = { ...pod, '/proc/pressure/memory': PRESSURE };
    expect(inCgroups('0::/pod', machine, memoryPressure)).toBe(12.34);
  });
});
