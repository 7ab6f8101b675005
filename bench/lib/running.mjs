// The processes of one run: a shell that only knows what all below it has cost, the tool, and the task below that.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { childrenOf, cpuS, killTree, tree } from './processes.mjs';
import { envOf } from './server.mjs';

const TASK = fileURLToPath(new URL('task.mjs', import.meta.url));
const LOOK_EVERY_MS = 50;
/** Leaves in `$STATE/times` what all that was started, and waited for, below it has cost; sh(1) `times`. */
export const WRAPPER = '"$@"; status=$?; times >"$STATE/times"; exit $status';

/** In memory where there is such a place: the disk must not set the pace. */
export function freshDir() {
  return fs.mkdtempSync(path.join(fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'capture-bench-'));
}

export function clockMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

const live = new Set();

/** Ends all that runs: for a bench that is ended itself. */
export async function stopAll() {
  await Promise.all([...live].map((running) => running.stop()));
}

/** Starts a task under a tool, in a directory of its own. */
export function startRun({ server, tool }, { task, options = [], bytesPerSecond }) {
  const dir = freshDir();
  const log = path.join(dir, 'task.log');
  fs.mkdirSync(path.join(dir, 'work'));
  fs.writeFileSync(log, '');
  const { does, ...settings } = task;
  const argv = [process.execPath, TASK, does, JSON.stringify(settings), log];
  const command = tool.command?.(options, argv) ?? ['bash', '-c', tool.script, tool.name, ...argv];
  const output = fs.openSync(path.join(dir, 'output'), 'w');
  const url = bytesPerSecond === undefined ? server.url : server.slowUrl;
  const env = { ...envOf({ url }, dir), STATE: dir };
  const stdio = ['ignore', output, output];
  const child = spawn('sh', ['-c', WRAPPER, 'sh', ...command], { cwd: path.join(dir, 'work'), env, stdio });
  fs.closeSync(output);
  const state = { closed: false, over: false, toolPid: undefined, taskPid: undefined, goneMs: undefined };
  const closed = new Promise((resolve) => {
    child.once('close', resolve);
  }).then(() => (state.closed = true));
  const events = () => eventsOf(log);
  const running = {
    state,
    events,
    /** Resolves when the task has noted this; to false when the run is over. */
    happened: async (name) => {
      while (!state.over && events().every(({ event }) => event !== name)) await pause(LOOK_EVERY_MS);
      return !state.over;
    },
    /** Of the tool: the task is not among them. */
    pids: () => (state.toolPid === undefined ? [] : tree(state.toolPid, state.taskPid)),
    /** What the tool and the task have cost, as far as that is known when they are alive or when all has ended. */
    cpuS: () => (state.closed ? timesS(dir) : sum(tree(child.pid, state.taskPid), (pid) => cpuS(pid, true))),
    output: () => fs.readFileSync(path.join(dir, 'output'), 'utf8'),
    look: () => look(state, child.pid, events),
    stop: async () => {
      state.over = true;
      live.delete(running);
      killTree(child.pid);
      await closed;
      const cleanUp = ['-c', tool.cleanUp ?? ':'];
      spawnSync('sh', cleanUp, { env: { ...process.env, STATE: dir } });
      fs.rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
    },
  };
  live.add(running);
  return running;
}

/** Finds the processes as they come. */
async function look(state, pid, events) {
  state.toolPid ??= childrenOf(pid)[0];
  state.taskPid ??= events().find(({ event }) => event === 'start')?.pid;
  if (state.taskPid !== undefined && !fs.existsSync(`/proc/${state.taskPid}`)) state.goneMs ??= clockMs();
  await pause(LOOK_EVERY_MS);
}

/** Of what {@link WRAPPER} left, the second line, its children's: `0m1.20s 0m0.31s`, of user and of system. */
export function timesS(dir) {
  const [, line = ''] = fs.readFileSync(path.join(dir, 'times'), 'utf8').split('\n');
  return sum([...line.matchAll(/(\d+)m([\d.]+)s/g)], ([, min, s]) => Number(min) * 60 + Number(s));
}

function eventsOf(log) {
  const lines = fs.readFileSync(log, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line));
}

function sum(things, of) {
  return things.reduce((total, one) => total + of(one), 0);
}
