// Starts the bench's S3 server in a process of its own, and speaks with it: the side door that says when each object
// became visible.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export const BUCKET = 'lab';

/** `ask(command, options)`: a command of lib/s3-server.mjs. */
export async function startServer() {
  const child = fork(fileURLToPath(new URL('s3-server.mjs', import.meta.url)), [], {
    serialization: 'advanced',
  });
  const [{ port, slowPort }] = await once(child, 'message');
  const waiting = new Map();
  let next = 0;
  child.on('message', ({ id, answer, error }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(answer);
    else reject(new Error(error));
  });
  return {
    url: `http://127.0.0.1:${port}`,
    /** For a link that has a rate. */
    slowUrl: `http://127.0.0.1:${slowPort}`,
    ask: (command, options = {}) =>
      new Promise((resolve, reject) => {
        next += 1;
        waiting.set(next, { resolve, reject });
        child.send({ id: next, command, options });
      }),
    stop: async () => {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}

/** What a process needs to use the server: for capture, the aws command line, and rclone's remote `s3:`. */
export function envOf({ url }, dir) {
  const [user, secret, region] = ['bench', 'bench-secret', 'us-east-1'];
  const rclone = {
    TYPE: 's3',
    PROVIDER: 'Other',
    ENDPOINT: url,
    ACCESS_KEY_ID: user,
    SECRET_ACCESS_KEY: secret,
    REGION: region,
    FORCE_PATH_STYLE: 'true',
    NO_CHECK_BUCKET: 'true',
  };
  return {
    PATH: process.env.PATH,
    HOME: dir,
    BUCKET,
    PREFIX: 'run',
    AWS_ENDPOINT_URL: url,
    AWS_ENDPOINT_URL_S3: url,
    AWS_REGION: region,
    AWS_DEFAULT_REGION: region,
    AWS_ACCESS_KEY_ID: user,
    AWS_SECRET_ACCESS_KEY: secret,
    AWS_EC2_METADATA_DISABLED: 'true',
    // The checksum that they add by default costs them time, and nobody here asks for it.
    AWS_REQUEST_CHECKSUM_CALCULATION: 'when_required',
    RCLONE_CONFIG: '/dev/null',
    ...Object.fromEntries(Object.entries(rclone).map(([name, value]) => [`RCLONE_CONFIG_S3_${name}`, value])),
  };
}
