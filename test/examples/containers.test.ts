// The manifests and the image under examples/ and Containerfile: whole, safe, and with command lines that capture
// understands.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { noFiles, parse } from '../cli/given.ts';
import { flushCommand } from '../../src/cli/flush.ts';
import { readLine } from '../../src/cli/read-line.ts';

const read = (name: string): string => fs.readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const MANIFESTS = ['examples/kubernetes/native-sidecar.yaml', 'examples/kubernetes/second-container.yaml'];

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly command?: readonly string[];
  readonly env?: readonly unknown[];
  readonly restartPolicy?: string;
  readonly startupProbe?: {
    readonly exec: { readonly command: readonly string[] };
    readonly timeoutSeconds: number;
  };
  readonly resources: {
    readonly requests?: { readonly cpu: string; readonly memory: string };
    readonly limits: { readonly cpu?: string; readonly memory: string };
  };
  readonly securityContext: unknown;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}
interface PodSpec {
  readonly restartPolicy: string;
  readonly serviceAccountName?: string;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: unknown;
  readonly volumes: readonly { readonly name: string; readonly emptyDir: { readonly sizeLimit?: string } }[];
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
}
interface Job {
  readonly spec: {
    readonly completionMode: string;
    readonly activeDeadlineSeconds?: number;
    readonly backoffLimitPerIndex: number;
    readonly podFailurePolicy: {
      readonly rules: readonly { readonly action: string; readonly onExitCodes?: unknown }[];
    };
    readonly template: { readonly spec: PodSpec };
  };
}

const IMAGE = `your-registry/capture:${(JSON.parse(read('package.json')) as { readonly version: string }).version}`;
const MIB: Readonly<Record<string, number>> = { Mi: 1, Gi: 1024 };
/** A quantity of memory as Kubernetes writes it, in MiB. */
const mebibytes = (quantity: string | undefined): number => {
  const [, count = '', unit = ''] = /^(\d+)(Mi|Gi)$/.exec(quantity ?? '') ?? [];
  return Number(count) * (MIB[unit] ?? 0);
};

const jobOf = (name: string): Job => parseYaml(read(name)) as Job;
/** Environment of a container of an Indexed Job. */
const POD = { JOB_COMPLETION_INDEX: '3', KUBERNETES_SERVICE_HOST: '10.0.0.1' };

describe.each(MANIFESTS)('%s', (name) => {
  const job = jobOf(name);
  const pod = job.spec.template.spec;
  const all = [...pod.initContainers, ...pod.containers];
  const named = (which: string): Container => {
    const found = all.find((one) => one.name === which);
    if (found === undefined) throw new Error(`no container ${which}`);
    return found;
  };

  it('has command lines that capture understands, of one and the same attempt', () => {
    const restore = parse(named('restore').args ?? [], POD);
    const watch = parse(named('capture').args ?? [], POD);
    expect(restore).toMatchObject({ kind: 'restore', warnings: [], settings: { handoff: true } });
    expect(watch).toMatchObject({ kind: 'watch', warnings: [] });
    if (restore.kind !== 'restore' || watch.kind !== 'watch') return;
    for (const key of ['to', 'identity', 'workdir', 'manifest', 'exitFile'] as const)
      expect(watch.settings[key]).toEqual(restore.settings[key]);
    expect(watch.settings.identity).toMatchObject({ index: '3', taskName: 'sim' });
    expect(watch.settings.graceMs).toBeLessThan(pod.terminationGracePeriodSeconds * 1000);
  });

  it('has a prefix for each submission, the same for each of its pods, and inputs come from the one above', () => {
    for (const which of ['restore', 'capture']) {
      const { args = [], env = [] } = named(which);
      // What makes a Job another one, also under the same name; each of its pods has it as a label.
      expect(env).toContainEqual({
        name: 'SUBMISSION',
        valueFrom: { fieldRef: { fieldPath: "metadata.labels['batch.kubernetes.io/controller-uid']" } },
      });
      const given = args.map((word) => word.replace('$(SUBMISSION)', 'uid-12'));
      const to = { url: 's3://my-bucket/sim/uid-12' };
      // The watch fetches no inputs.
      const from = which === 'restore' ? { url: 's3://my-bucket/sim' } : undefined;
      expect(parse(given, POD)).toMatchObject({ settings: { to, from } });
    }
  });

  it('gives the restore all options of the watch, so that a wrong one is found before anything starts', () => {
    const [, ...watch] = named('capture').args ?? [];
    expect(named('restore').args).toEqual(['restore', '--handoff', ...watch]);
  });

  it('keeps 75 and evictions running, and gives up 76 and wrong options', () => {
    expect(job.spec.completionMode).toBe('Indexed');
    // Both need it: podFailurePolicy, and an exit file that only one task writes.
    expect(pod.restartPolicy).toBe('Never');
    expect(job.spec.backoffLimitPerIndex).toBeGreaterThan(0);
    const actions = job.spec.podFailurePolicy.rules.map(({ action, onExitCodes }) => [
      action,
      onExitCodes === undefined ? 'DisruptionTarget' : JSON.stringify(onExitCodes),
    ]);
    const status = (value: number): string => JSON.stringify({ operator: 'In', values: [value] });
    expect(actions).toEqual([
      ['FailJob', status(64)],
      ['FailIndex', status(76)],
      ['Ignore', status(75)],
      ['Ignore', 'DisruptionTarget'],
    ]);
  });

  it('names the image that the Containerfile makes, and a service account for the bucket', () => {
    for (const which of ['restore', 'capture']) expect(named(which).image).toBe(IMAGE);
    expect(pod.serviceAccountName).toBe('sim');
  });

  it('gives capture what it takes, the restore what it fills the volume with, and the Job an end', () => {
    const volume = pod.volumes.find((one) => one.name === 'work');
    for (const which of ['restore', 'capture']) {
      const { requests, limits } = named(which).resources;
      expect(mebibytes(requests?.memory)).toBeGreaterThanOrEqual(256);
      expect(mebibytes(limits.memory)).toBeGreaterThanOrEqual(512);
      // Without it a busy node starves the uploads; a limit would do so on an idle one.
      expect(requests?.cpu).toBeDefined();
      expect(limits.cpu).toBeUndefined();
    }
    const left = mebibytes(named('restore').resources.limits.memory) - mebibytes(volume?.emptyDir.sizeLimit);
    expect(left).toBeGreaterThanOrEqual(512);
    expect(job.spec.activeDeadlineSeconds).toBeGreaterThan(0);
  });

  it('needs no root, no capability and no writable root file system', () => {
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    for (const { securityContext } of all) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
    }
  });

  it('shares the work directory in memory, and gives capture a place for temporary files', () => {
    const volumes = new Map(pod.volumes.map((volume) => [volume.name, volume.emptyDir]));
    expect(volumes.get('work')).toMatchObject({ medium: 'Memory' });
    for (const { volumeMounts } of all)
      expect(volumeMounts).toContainEqual({ name: 'work', mountPath: '/scratch' });
    for (const which of ['restore', 'capture'])
      expect(named(which).volumeMounts).toContainEqual({ name: 'tmp', mountPath: '/tmp' });
  });
});

it('the native sidecar starts after the restore, and the task when it watches', () => {
  const { initContainers } = jobOf(MANIFESTS[0] ?? '').spec.template.spec;
  expect(initContainers.map(({ name, restartPolicy }) => [name, restartPolicy])).toEqual([
    ['restore', undefined],
    ['capture', 'Always'],
  ]);
  const probe = initContainers[1]?.startupProbe;
  const [program, command, ...args] = probe?.exec.command ?? [];
  expect([program, command]).toEqual(['capture', 'flush']);
  const line = readLine(flushCommand, args, { env: {}, cwd: '/', outside: noFiles });
  expect(line).toMatchObject({ kind: 'go', request: { ping: true, socket: '/tmp/control' } });
  // The probe gives up by itself before it is killed.
  if (line.kind === 'go') expect(line.request.timeoutMs).toBeLessThan((probe?.timeoutSeconds ?? 0) * 1000);
});

interface JobDefinition {
  readonly retryStrategy: { readonly evaluateOnExit: readonly Record<string, string>[] };
  readonly containerProperties: { readonly command: readonly string[] };
}
const definition = parseYaml(read('examples/aws-batch/job-definition.yaml')) as JobDefinition;

/** What capture is given by the job's command in this environment: a program of that name prints its words. */
function givenByBatch(env: NodeJS.ProcessEnv): readonly string[] {
  const bin = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-batch-'));
  try {
    fs.writeFileSync(path.join(bin, 'capture'), '#!/bin/sh\nprintf "%s\\0" "$@"\n', { mode: 0o755 });
    const [program = '', ...args] = definition.containerProperties.command;
    const PATH = `${bin}:${process.env['PATH']}`;
    return execFileSync(program, args, { env: { PATH, ...env }, encoding: 'utf8' })
      .split('\0')
      .slice(0, -1);
  } finally {
    fs.rmSync(bin, { recursive: true });
  }
}

it.each([
  ['is one for each submission', { AWS_BATCH_JOB_ID: 'job-12:3' }, 'job-12'],
  ['is the same in the next attempt', { AWS_BATCH_JOB_ID: 'job-12:3', AWS_BATCH_JOB_ATTEMPT: '2' }, 'job-12'],
  ['is another for the next submission', { AWS_BATCH_JOB_ID: 'job-13:3' }, 'job-13'],
  ['is the earlier one when that is asked for', { AWS_BATCH_JOB_ID: 'job-13:3', RUN: 'job-12' }, 'job-12'],
])('the prefix of the AWS Batch job %s, and inputs come from the one above', (_, env, prefix) => {
  const AWS_BATCH_JOB_ARRAY_INDEX = env.AWS_BATCH_JOB_ID.split(':')[1];
  expect(parse(givenByBatch(env), { ...env, AWS_BATCH_JOB_ARRAY_INDEX })).toMatchObject({
    kind: 'run',
    warnings: [],
    settings: {
      identity: { index: '3', taskName: 'lmp' },
      to: { url: `s3://my-bucket/melt/${prefix}` },
      from: { url: 's3://my-bucket/melt' },
    },
  });
});

it('the AWS Batch job retries 75 and a lost host, and nothing else', () => {
  expect(definition.retryStrategy.evaluateOnExit).toEqual([
    { onExitCode: '76', action: 'EXIT' },
    { onExitCode: '75', action: 'RETRY' },
    { onStatusReason: 'Host EC2*', action: 'RETRY' },
    { onReason: '*', action: 'EXIT' },
  ]);
});

describe('the Containerfile', () => {
  const lines = read('Containerfile').split('\n');
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));

  it('lets the archives into the build context, and nothing else', () => {
    const copied = lines
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(
      read('.dockerignore')
        .split('\n')
        .filter((line) => /^[^#]/.test(line)),
    ).toEqual(['*', ...copied.map((name) => `!${name}`)]);
  });

  it('runs capture as nobody in particular', () => {
    expect(last).toContain('USER 65532:65532');
    expect(last).toContain('ENTRYPOINT ["capture"]');
  });

  it('is built, by what it and its page say, under the name that the manifests use', () => {
    for (const name of ['Containerfile', 'docs/containers.md']) {
      const built = [...read(name).matchAll(/(?:podman|docker) build (?:-f Containerfile )?-t (\S+) \./g)];
      expect(built.map(([, image]) => image)).toEqual([IMAGE, IMAGE]);
    }
    expect(read('docs/containers.md')).not.toMatch(/COPY --from=capture /);
  });
});
