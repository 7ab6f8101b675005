// Which cloud this machine belongs to, by files and environment variables. Without such a sign nothing is asked over
// the network: without a metadata service, a request could block for seconds.
import fs from 'node:fs';
import path from 'node:path';

export type Cloud = 'ec2' | 'gce' | 'azure';

/** Where the kernel exposes firmware data, and Xen's. */
const DMI_DIR = '/sys/class/dmi/id';
const HYPERVISOR_UUID = '/sys/hypervisor/uuid';

/** On plain Hyper-V the vendor is Microsoft, too; only Azure has this asset tag (cloud-init's ds-identify). */
const AZURE_ASSET_TAG = '7783-7084-3265-9085-8269-3286-77';

/** A container that is on no machine of the user: its metadata service has no interruption notices. */
const FARGATE = 'AWS_ECS_FARGATE';

/** A variable of this cloud's own agents or clients. An empty value counts as unset. */
const VARIABLES: readonly (readonly [string, Cloud])[] = [
  ['AWS_EC2_METADATA_SERVICE_ENDPOINT', 'ec2'],
  ['GCE_METADATA_HOST', 'gce'],
  ['CAPTURE_AZURE_METADATA_ENDPOINT', 'azure'],
  ['ECS_CONTAINER_METADATA_URI_V4', 'ec2'],
  ['ECS_CONTAINER_METADATA_URI', 'ec2'],
  ['AWS_BATCH_JOB_ID', 'ec2'],
  ['AZ_BATCH_TASK_ID', 'azure'],
];

/** At most one cloud; undefined without a sign of any. */
export function likelyCloud(env: NodeJS.ProcessEnv): Cloud | undefined {
  if (env['AWS_EXECUTION_ENV'] === FARGATE) return undefined;
  const byVariable = VARIABLES.find(([name]) => (env[name] ?? '') !== '');
  return byVariable?.[1] ?? cloudByFirmware();
}

function cloudByFirmware(): Cloud | undefined {
  const dmi = (name: string): string => firstLine(path.join(DMI_DIR, name));
  if (['sys_vendor', 'board_vendor', 'bios_vendor'].some((name) => dmi(name) === 'Amazon EC2')) return 'ec2';
  // Instances on Xen (User Guide, "Detect whether a host is an EC2 instance").
  if (dmi('bios_version').endsWith('.amazon') || /^ec2/i.test(firstLine(HYPERVISOR_UUID))) return 'ec2';
  // Notebooks have the same vendor.
  if (dmi('product_name') === 'Google Compute Engine') return 'gce';
  return dmi('chassis_asset_tag') === AZURE_ASSET_TAG ? 'azure' : undefined;
}

/** From sysfs, which never blocks. '' if the file is missing, or not readable. */
function firstLine(file: string): string {
  try {
    return (fs.readFileSync(file, 'utf8').split('\n', 1)[0] ?? '').trim();
  } catch {
    return '';
  }
}
