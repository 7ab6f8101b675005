// A work directory of its own and a prefix of its own on a strict S3 server, which fails on request.
import fs from 'node:fs';
import { decompress } from 'zstd-napi';
import { parseRecord, type CaptureRecord } from '../../src/model/format/records.ts';
import { startS3Server, type S3Server } from '../s3-server/server.ts';
import { openPlace, type Place, type Run } from './support.ts';

export interface S3Place {
  readonly place: Place;
  readonly server: S3Server;
  /** The options that name the prefix, and the environment that reaches the server. */
  readonly at: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Runs a shell script as the task; `env` comes after the server's own. */
  run(options: readonly string[], script: string, env?: NodeJS.ProcessEnv): Run;
  /** Keys below the prefix, without records. */
  keys(): readonly string[];
  records(): readonly { readonly key: string; readonly record: CaptureRecord }[];
  /** Uncompressed text of an object. */
  text(key: string): string;
  /** How many contents of the key were ever visible. */
  versions(key: string): number;
  close(): Promise<void>;
}

const PREFIX = 'run/';

export async function openS3Place(): Promise<S3Place> {
  const server = await startS3Server();
  const place = openPlace();
  const all = (): readonly string[] => server.keys().map((key) => key.slice(PREFIX.length));
  const bytes = (key: string): Buffer => {
    const stored = Buffer.from(server.versions(PREFIX + key).at(-1)?.bytes ?? []);
    return key.endsWith('.zst') ? Buffer.from(decompress(stored)) : stored;
  };
  const recordOf = (key: string): CaptureRecord => {
    const record = parseRecord(bytes(key).toString('utf8'));
    if ('invalid' in record) throw new Error(`${key}: ${record.invalid}`);
    return record;
  };
  const at = ['--to', `s3://${server.bucket}/run`, '--path-style'];
  const known = { ...NO_FILES, ...server.env };
  return {
    place,
    server,
    at,
    env: known,
    run: (options, script, env = {}) =>
      place.capture([...at, ...options, '--', 'sh', '-c', script], { ...known, ...env }),
    keys: () => all().filter((key) => !key.startsWith('.capture/')),
    records: () =>
      all()
        .filter((key) => key.startsWith('.capture/') && !key.endsWith('.list.json'))
        .map((key) => ({ key, record: recordOf(key) })),
    text: (key) => bytes(key).toString('utf8'),
    versions: (key) => server.versions(PREFIX + key).length,
    close: async () => {
      place.close();
      await server.stop();
    },
  };
}

/** Never the credentials of whoever runs the tests. */
const NO_FILES = {
  AWS_CONFIG_FILE: '/dev/null',
  AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
  AWS_EC2_METADATA_DISABLED: 'true',
} as const;

/** An AWS credentials file with one profile, and the environment that names it. */
export function writeProfile(
  file: string,
  keys: { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string },
): NodeJS.ProcessEnv {
  const token = keys.sessionToken === undefined ? [] : [`aws_session_token=${keys.sessionToken}`];
  const lines = [`aws_access_key_id=${keys.accessKeyId}`, `aws_secret_access_key=${keys.secretAccessKey}`];
  fs.writeFileSync(`${file}.new`, ['[sim]', ...lines, ...token, ''].join('\n'));
  fs.renameSync(`${file}.new`, file);
  return {
    AWS_ACCESS_KEY_ID: undefined,
    AWS_SECRET_ACCESS_KEY: undefined,
    AWS_PROFILE: 'sim',
    AWS_SHARED_CREDENTIALS_FILE: file,
  };
}
