// The whole program on a real sshd: a run that is killed with all its processes, the next attempt on an empty machine, and
// the commands on what is stored.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { killTree, openPlace, type Place, type Run } from '../e2e/support.ts';
import { openSftpServer, type SftpServer } from './sftp-server.ts';

let server: SftpServer;
let place: Place;
beforeEach(async () => {
  server = await openSftpServer();
  place = openPlace();
});
afterEach(async () => {
  place?.close();
  await server?.close();
});

const url = (): string => server.url('melt');

function capture(args: readonly string[]): Run {
  return place.capture(args, { HOME: server.home });
}

async function outputOf(args: readonly string[]): Promise<string> {
  const run = capture(args);
  expect(await run.status, `${args.join(' ')}: ${run.stderr()}`).toBe(0);
  return run.stdout();
}

const OPTIONS = ['-r', 'out/', '-k', 'state.chk', '--index', '3', '--task-name', 'melt'];
/** Goes on from its checkpoint; waits after the second step of its first attempt. */
const TASK = `
mkdir -p out
step=$(cat state.chk 2>/dev/null || echo 0)
echo "from $step"
while [ $step -lt 4 ]; do
  step=$((step + 1))
  seq $((step * 1000)) > out/of-$step
  echo $step > new.chk && mv new.chk state.chk
  [ $step != 2 ] || [ -e resumed ] || sleep 600
done`;

it('a run on a server with SSH outlives the death of all its processes, and the commands find all of it', async () => {
  const first = capture([
    '--to',
    url(),
    ...OPTIONS,
    '--checkpoint-settle',
    '0s',
    '--log-level',
    'debug',
    '--',
    'sh',
    '-c',
    TASK,
  ]);
  await until(
    () =>
      stored().some((key) => key.startsWith('state.chk')) &&
      stored().some((key) => key.startsWith('out/of-2')),
  );
  await until(() => records().length > 1);
  killTree(first.pid);
  await first.status;

  place.freshWork();
  fs.writeFileSync(place.at('resumed'), '');
  const second = capture(['--to', url(), ...OPTIONS, '--', 'sh', '-c', TASK]);
  expect(await second.status, second.stderr()).toBe(0);
  expect(second.stdout()).toMatch(/^from [12]\n/);
  expect(await outputOf(['status', url(), '--array', '3'])).toMatch(/1 done/);
  const listed = await outputOf(['ls', url()]);
  for (const step of [1, 2, 3, 4]) expect(listed).toContain(`out/of-${step}`);
  await outputOf(['verify', url(), '--array', '3']);

  place.freshWork();
  await outputOf(['gather', url(), 'results', '--array', '3']);
  const expected = Array.from({ length: 4000 }, (_, at) => `${at + 1}\n`).join('');
  expect(fs.readFileSync(place.at('results/3/out/of-4'), 'utf8')).toBe(expected);
  place.freshWork();
  await outputOf(['restore', '--to', url(), '-k', 'state.chk', '--index', '3', '--task-name', 'melt']);
  expect(fs.readFileSync(place.at('state.chk'), 'utf8')).toBe('4\n');

  await outputOf(['prune', url(), '--uploads', '--checkpoints']);
  expect(stored().filter((key) => key.startsWith('state.chk'))).toEqual([]);
  expect(temporaries()).toEqual([]);
  await outputOf(['rm', url(), '--index', '3', '--yes']);
  expect(stored()).toEqual([]);
  expect(records()).toEqual([]);
});

it('capture doctor tries all that a run needs, leaves nothing, and names what is missing', async () => {
  const said = await outputOf(['doctor', url()]);
  expect(said).toMatch(/ 0 failures/);
  expect(stored()).toEqual([]);
  fs.rmSync(path.join(server.home, '.ssh/known_hosts'));
  const unknown = capture(['doctor', url()]);
  expect(await unknown.status).toBe(1);
  expect(unknown.stdout()).toMatch(
    /FAIL credentials: [^\n]*the host is unknown[^]*try: [^\n]*ssh-keyscan -p \d+ 127\.0\.0\.1/,
  );
  const refused = capture(['--to', url(), '-r', 'r.dat', '--', 'echo', 'started']);
  expect(await refused.status).toBe(69);
  expect(refused.stdout()).toBe('');
  expect(refused.stderr()).toMatch(/the host is unknown/);
});

/** Keys of stored objects; records are apart. */
function keys(): readonly string[] {
  if (!fs.existsSync(server.at('melt'))) return [];
  return fs
    .readdirSync(server.at('melt'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(server.at('melt'), path.join(entry.parentPath, entry.name)))
    .filter((key) => !key.startsWith('.capture-store/'));
}

const stored = (): readonly string[] => keys().filter((key) => !key.startsWith('.capture/'));
const records = (): readonly string[] => keys().filter((key) => key.startsWith('.capture/'));

function temporaries(): readonly string[] {
  return fs
    .readdirSync(path.join(server.at('melt'), '.capture-store/tmp'))
    .filter((name) => !name.endsWith('.going'));
}

async function until(condition: () => boolean): Promise<void> {
  for (const startMs = performance.now(); !condition();) {
    if (performance.now() - startMs > 60_000) throw new Error(`it never came: ${keys().join(', ')}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
