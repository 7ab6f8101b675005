// A Grid Engine of Debian for one test: a cell of its own in a directory, with one host and one queue, on loopback. Its
// daemons end with the test.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './redis.ts';
import { until } from './slurm/cluster.ts';

/** Where Debian has the programs, which the wrappers in /usr/bin start, and the files of a new cell. */
const PROGRAMS = '/usr/lib/gridengine';
const FILES = '/usr/share/gridengine';
const ROOT = '/var/lib/gridengine';
/** Seconds between USR2 and KILL. */
const NOTIFY_S = 20;

export interface GridEngine {
  /** One of Grid Engine's commands: its stdout. Throws with its stderr if it fails. */
  command(words: readonly string[], env?: NodeJS.ProcessEnv): string;
  close(): Promise<void>;
}

export async function openGridEngine(dir: string): Promise<GridEngine> {
  const root = path.join(dir, 'root');
  const common = path.join(root, 'default/common');
  const spool = path.join(dir, 'spool');
  for (const made of [common, path.join(spool, 'qmaster/job_scripts'), path.join(spool, 'execd')])
    fs.mkdirSync(made, { recursive: true });
  fs.symlinkSync(path.join(ROOT, 'util'), path.join(root, 'util'));
  const env = {
    ...process.env,
    SGE_ROOT: root,
    SGE_CELL: 'default',
    SGE_QMASTER_PORT: String(await freePort()),
    SGE_EXECD_PORT: String(await freePort()),
    // Daemons stay children of this test.
    SGE_ND: '1',
  };
  const command: GridEngine['command'] = ([name = '', ...words], more = {}) => {
    const { status, stdout, stderr } = spawnSync(path.join(PROGRAMS, name), words, {
      encoding: 'utf8',
      env: { ...env, ...more },
    });
    if (status !== 0) throw new Error(`${name} ${words.join(' ')}: ${status}\n${stdout}${stderr}`);
    return stdout.trim();
  };
  const works = (...words: readonly string[]): boolean => {
    try {
      command(words);
      return true;
    } catch {
      return false;
    }
  };
  const write = (name: string, text: string): string => {
    fs.writeFileSync(path.join(dir, name), text);
    return path.join(dir, name);
  };

  const spooling = `${common};${spool}/qmaster`;
  const bootstrap = { spooling_method: 'classic', spooling_lib: 'libspoolc', spooling_params: spooling };
  const all = {
    ...bootstrap,
    admin_user: 'none',
    default_domain: 'none',
    ignore_fqdn: 'false',
    binary_path: '/usr/sbin',
    qmaster_spool_dir: `${spool}/qmaster`,
    security_mode: 'none',
    listener_threads: '2',
    worker_threads: '2',
    scheduler_threads: '1',
  };
  fs.writeFileSync(path.join(common, 'bootstrap'), tableOf(all));
  fs.writeFileSync(path.join(common, 'act_qmaster'), 'localhost\n');
  // However the name of this machine is resolved, it is this host.
  fs.writeFileSync(path.join(common, 'host_aliases'), `localhost ${os.hostname()}\n`);
  command(['spoolinit', 'classic', 'libspoolc', spooling, 'init']);
  const configuration = changed(fs.readFileSync(path.join(FILES, 'default-configuration'), 'utf8'), {
    execd_spool_dir: path.join(spool, 'execd'),
    mailer: '/bin/true',
    min_uid: '0',
    min_gid: '0',
    load_report_time: '00:00:02',
  });
  command(['spooldefaults', 'configuration', write('configuration', configuration)]);
  command(['spooldefaults', 'complexes', path.join(FILES, 'util/resources/centry')]);
  command(['spooldefaults', 'usersets', path.join(FILES, 'util/resources/usersets')]);
  command(['spooldefaults', 'managers', os.userInfo().username]);

  const daemons: ChildProcess[] = [];
  const start = (name: string): void => {
    const out = fs.openSync(path.join(dir, `${name}.out`), 'a');
    daemons.push(spawn(path.join(PROGRAMS, name), { env, stdio: ['ignore', out, out], cwd: dir }));
    fs.closeSync(out);
  };
  const outputs = (): string =>
    ['sge_qmaster', 'sge_execd']
      .map((name) => path.join(dir, `${name}.out`))
      .map((file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : ''))
      .join('\n');
  const engine = {
    command,
    close: async () => {
      for (const daemon of daemons.toReversed()) {
        if (daemon.exitCode !== null || daemon.signalCode !== null) continue;
        const exited = once(daemon, 'exit');
        daemon.kill('SIGKILL');
        await exited;
      }
    },
  };
  try {
    start('sge_qmaster');
    await until(() => works('qconf', '-sh'), outputs, 60_000);
    command(['qconf', '-as', 'localhost']);
    start('sge_execd');
    await until(() => works('qconf', '-se', 'localhost'), outputs, 60_000);
    const schedule = { schedule_interval: '0:0:1', flush_submit_sec: '1', flush_finish_sec: '1' };
    command(['qconf', '-Msconf', write('schedule', changed(command(['qconf', '-ssconf']), schedule))]);
    const tmpdir = path.join(dir, 'tmp');
    fs.mkdirSync(tmpdir);
    const queue = changed(command(['qconf', '-sq']), {
      qname: 'all.q',
      hostlist: 'localhost',
      slots: '4',
      tmpdir,
      notify: `00:00:${NOTIFY_S}`,
      pe_list: 'NONE',
      load_thresholds: 'NONE',
      // As the first line of the script says.
      shell_start_mode: 'unix_behavior',
    });
    command(['qconf', '-Aq', write('queue', queue)]);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}

function tableOf(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${value}\n`)
    .join('');
}

/** A table of names and values in which these have others. */
function changed(table: string, values: Readonly<Record<string, string>>): string {
  return Object.entries(values).reduce(
    (text, [name, value]) => text.replace(new RegExp(`^${name}\\s.*$`, 'm'), `${name} ${value}`),
    `${table}\n`,
  );
}
