// The sources together: which are opened, what they say as one, and that they hold up nothing.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { bundle } from '../support/bundle.ts';
import { withFilesAlone } from '../support/files-alone.ts';
import { testDir } from '../support/work-dir.ts';
import { afterwards, closeAll, listenTo, serve, until } from './listening.ts';
import type { Asked, Reply } from './metadata-server.ts';

afterEach(closeAll);

const ACTION = '/latest/meta-data/spot/instance-action';

function interrupted({ method, url }: Asked): Reply {
  if (method === 'PUT') return { body: 'token' };
  return url === ACTION
    ? { body: JSON.stringify({ action: 'stop', time: '2026-03-01T08:22:00Z' }) }
    : { status: 404 };
}

describe('the notice sources', () => {
  test('of none ask nothing, whatever else is named', async () => {
    const server = await serve(interrupted);
    const env = { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url };
    listenTo([{ kind: 'ec2' }, { kind: 'none' }], { env });
    const other = listenTo({ kind: 'ec2' }, { env });
    await until(() => expect(other.told).toHaveLength(1));
    expect(server.asked.filter(({ method }) => method === 'PUT')).toHaveLength(1);
  });

  test('of auto are those of the likely cloud', async () => {
    const server = await serve(interrupted);
    const heard = listenTo({ kind: 'auto' }, { env: { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url } });
    await until(() => expect(heard.told).toMatchObject([{ source: 'ec2' }]));
    expect(heard.said).toEqual(['debug: listening to ec2 for notices']);
  });

  test('of auto are found by the firmware as well', async () => {
    const env = { AWS_EC2_METADATA_DISABLED: 'true' };
    const heard = withFilesAlone({ '/sys/class/dmi/id/sys_vendor': 'Amazon EC2\n' }, () =>
      listenTo({ kind: 'auto' }, { env }),
    );
    await until(() => expect(heard.said).toHaveLength(2));
    expect(heard.said[0]).toBe('debug: listening to ec2 for notices');
  });

  test('of auto are none where nothing hints at a cloud', () => {
    const heard = withFilesAlone({}, () => listenTo({ kind: 'auto' }));
    expect(heard.said).toEqual(['debug: no cloud here announces a stop']);
  });

  test('say one thing once, though two of them say it', async () => {
    const server = await serve(interrupted);
    const env = { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url };
    const heard = listenTo([{ kind: 'auto' }, { kind: 'ec2' }], { env });
    await until(() => expect(server.count(ACTION)).toBeGreaterThan(6));
    expect(heard.told).toHaveLength(1);
    server.answer = (asked) => (asked.method === 'PUT' ? interrupted(asked) : { status: 404 });
    await until(() => expect(heard.withdrawn).toHaveLength(1));
  });

  test('rehearse a preemption after the time that was asked for', async () => {
    const heard = listenTo({ kind: 'after', ms: 5 });
    const later = listenTo({ kind: 'after', ms: 3_600_000 });
    await until(() => expect(heard.told).toHaveLength(1));
    const what = 'rehearsal: a notice 5 ms after the start';
    expect(heard.told).toEqual([{ source: 'after', kind: 'stop', atMs: undefined, what }]);
    expect(later.told).toEqual([]);
  });

  test('are never asked through the agent that obeys a proxy', async () => {
    const before = http.globalAgent;
    class Proxied extends http.Agent {
      override createConnection(): never {
        throw new Error('through a proxy');
      }
    }
    http.globalAgent = new Proxied();
    try {
      const server = await serve(interrupted);
      const heard = listenTo({ kind: 'ec2' }, { env: { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url } });
      await until(() => expect(heard.told).toHaveLength(1));
    } finally {
      http.globalAgent = before;
    }
  });

  test('say nothing after they were closed, and are done at once', async () => {
    const server = await serve(interrupted);
    const heard = listenTo([{ kind: 'ec2' }, { kind: 'after', ms: 1 }, { kind: 'file', path: '/' }], {
      env: { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url },
    });
    heard.close();
    await heard.done();
    const other = listenTo([
      { kind: 'after', ms: 1 },
      { kind: 'file', path: '/' },
    ]);
    await until(() => expect(other.told).toHaveLength(2));
    expect([...heard.told, ...heard.said]).toEqual([]);
  });

  test('do not hold the process, with a question to each service under way', async () => {
    const dir = testDir();
    afterwards(() => dir.remove());
    const server = await serve(() => 'silent');
    const child = fork(await bundle('test/notices/fixtures/listen-and-end.ts', dir.path), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url,
        GCE_METADATA_HOST: server.host,
        CAPTURE_AZURE_METADATA_ENDPOINT: server.url,
      },
    });
    afterwards(() => child.kill('SIGKILL'));
    await until(() => expect(server.asked).toHaveLength(3));
    const ended = once(child, 'exit');
    child.send('end');
    expect(await ended).toEqual([0, null]);
  });
});
