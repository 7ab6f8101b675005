// Can this machine's cloud be heard: the metadata services as local servers speak them.
import { afterEach, describe, expect, it } from 'vitest';
import { probeCloud, type CloudProbe } from '../../src/notices/cloud-probe.ts';
import { withFilesAlone } from '../support/files-alone.ts';
import { closeAll, serve } from './listening.ts';

afterEach(closeAll);

/** No answer is waited for longer than this; the others come at once. */
const LONG_MS = 20_000;

function audible(env: NodeJS.ProcessEnv, withinMs = LONG_MS): Promise<CloudProbe> {
  return probeCloud({
    env,
    withinMs,
    signal: new AbortController().signal,
    pace: { pollMs: 2, timeoutMs: LONG_MS, slowTimeoutMs: LONG_MS },
  });
}

describe('the cloud of this machine', () => {
  it('is none where nothing hints at one', async () => {
    expect(await withFilesAlone({}, () => audible({}))).toEqual({ kind: 'no-cloud' });
  });

  it('is heard when its service answers', async () => {
    const { url } = await serve(({ method }) => (method === 'PUT' ? { body: 'token' } : { status: 404 }));
    expect(await audible({ AWS_EC2_METADATA_SERVICE_ENDPOINT: url })).toEqual({
      kind: 'heard',
      cloud: 'ec2',
    });
  });

  it('is silent when it refuses, and says why and what helps', async () => {
    const { url } = await serve(() => ({ status: 403 }));
    expect(await audible({ AWS_EC2_METADATA_SERVICE_ENDPOINT: url })).toMatchObject({
      kind: 'silent',
      cloud: 'ec2',
      why: expect.stringContaining('http 403') as string,
      hint: expect.stringContaining('hop-limit') as string,
    });
  });

  it('is slow when it gives no answer in time', async () => {
    const { url } = await serve(() => 'silent');
    expect(await audible({ AWS_EC2_METADATA_SERVICE_ENDPOINT: url }, 1)).toEqual({
      kind: 'slow',
      cloud: 'ec2',
    });
  });
});
