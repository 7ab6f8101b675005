// Which cloud this is, from what firmware and environment say: files as the kernel shows them on each.
import { describe, expect, test } from 'vitest';
import { likelyCloud } from '../../src/notices/platform.ts';
import { withFilesAlone } from '../support/files-alone.ts';

/** `files`: by their paths in sysfs, those of the firmware as `dmi/name`. */
function cloud(files: Record<string, string>, env: NodeJS.ProcessEnv = {}): string | undefined {
  const placed = Object.entries(files).map(([name, text]) => [
    `/sys/${name.replace('dmi/', 'class/dmi/id/')}`,
    text,
  ]);
  return withFilesAlone(Object.fromEntries(placed), () => likelyCloud(env));
}

const NITRO = { 'dmi/sys_vendor': 'Amazon EC2\n', 'dmi/product_name': 'c7g.large\n' };
const AZURE_TAG = '7783-7084-3265-9085-8269-3286-77\n';

describe('the likely cloud', () => {
  test.each<[string, Record<string, string>, string | undefined]>([
    ['EC2 on Nitro', NITRO, 'ec2'],
    ['EC2 bare metal', { 'dmi/board_vendor': 'Amazon EC2\n' }, 'ec2'],
    ['EC2 on Xen, by its BIOS', { 'dmi/sys_vendor': 'Xen\n', 'dmi/bios_version': '4.11.amazon\n' }, 'ec2'],
    ['EC2 on Xen, by its UUID', { 'hypervisor/uuid': 'ec2e1916-9099-7caf-fd21-012345abcdef\n' }, 'ec2'],
    ['GCE', { 'dmi/sys_vendor': 'Google\n', 'dmi/product_name': 'Google Compute Engine\n' }, 'gce'],
    ['Azure', { 'dmi/sys_vendor': 'Microsoft Corporation\n', 'dmi/chassis_asset_tag': AZURE_TAG }, 'azure'],
    ['a notebook by Google', { 'dmi/sys_vendor': 'Google\n', 'dmi/product_name': 'Eve\n' }, undefined],
    [
      'Hyper-V',
      { 'dmi/sys_vendor': 'Microsoft Corporation\n', 'dmi/product_name': 'Virtual Machine\n' },
      undefined,
    ],
    ['another Xen', { 'hypervisor/uuid': '12345678-0000-0000-0000-000000000000\n' }, undefined],
    ['a machine that says nothing', {}, undefined],
  ])('of %s', (_, files, expected) => {
    expect(cloud(files)).toBe(expected);
  });

  test.each<[string, NodeJS.ProcessEnv, string | undefined]>([
    ['a container of ECS', { ECS_CONTAINER_METADATA_URI_V4: 'http://169.254.170.2/v4/x' }, 'ec2'],
    ['a job of AWS Batch', { AWS_BATCH_JOB_ID: 'a:3' }, 'ec2'],
    [
      'the same on Fargate',
      { AWS_BATCH_JOB_ID: 'a:3', ECS_CONTAINER_METADATA_URI: 'x', AWS_EXECUTION_ENV: 'AWS_ECS_FARGATE' },
      undefined,
    ],
    ['a task of Azure Batch', { AZ_BATCH_TASK_ID: 't' }, 'azure'],
    ['a variable that is empty', { GCE_METADATA_HOST: '' }, undefined],
    ['a metadata host', { GCE_METADATA_HOST: 'localhost:1' }, 'gce'],
  ])('of %s, whose firmware cannot be read', (_, env, expected) => {
    expect(cloud({}, env)).toBe(expected);
  });

  test('Fargate shows the firmware of EC2, and is not believed', () => {
    expect(cloud(NITRO, { AWS_EXECUTION_ENV: 'AWS_ECS_FARGATE' })).toBeUndefined();
  });

  test('what the environment says goes before the firmware', () => {
    expect(cloud(NITRO, { GCE_METADATA_HOST: 'localhost:1' })).toBe('gce');
  });
});
