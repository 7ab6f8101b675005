// One run of a task under one tool: starts it, looks at it while it runs, waits for its end, and judges what the server
// has got. All figures of CPU and memory are of the tool: the task and the server are not among them.
import os from 'node:os';
import { judge } from './judge.mjs';
import { watchPeak } from './processes.mjs';
import { clockMs, startRun } from './running.mjs';

/** For a tool that hangs, or lets its task hang. */
const MOST_MS = 15 * 60_000;
/** For one that starts more and more processes: the machine must live. */
const MOST_MIB = os.totalmem() / 4 / 2 ** 20;

/**
 * Runs `job.task` under `tool`. `job.during` may act while it runs, and ends the run at once if it resolves to true. A
 * tool that is not done `job.capS` after the task, or takes a quarter of the machine's memory, is ended. With
 * `job.together` others run beside it: the server is not reset.
 */
export async function run({ server, tool }, job) {
  if (!job.together) await server.ask('reset', { keep: job.keep, bytesPerSecond: job.bytesPerSecond });
  const running = startRun({ server, tool }, job);
  const peak = watchPeak(running.pids);
  try {
    await untilDone(running, job, peak);
    peak.look();
    const events = running.events();
    if (events.length === 0) throw new Error(`${tool.name} has not run the task:\n${running.output()}`);
    const end = events.find(({ event }) => event === 'end');
    const figures = {
      cpuS: Math.max(0, running.cpuS() - (end?.cpuS ?? 0)),
      peakMiB: peak.mostMiB,
      requests: await server.ask('requests'),
    };
    if (process.env.BENCH_VERBOSE) console.error(tool.name, job.task, figures, running.output());
    return { ...figures, events, ...(await judge({ server, tool, events, job })) };
  } finally {
    peak.close();
    await running.stop();
  }
}

async function untilDone(running, job, peak) {
  const { state } = running;
  let capMs = clockMs() + MOST_MS;
  let during;
  while (!state.closed && !state.stop && clockMs() < capMs && peak.mostMiB < MOST_MIB) {
    await running.look();
    // A failure is thrown below.
    if (state.taskPid !== undefined)
      during ??= acting(running, job).catch((error) => (state.failure = error));
    if (state.goneMs !== undefined) capMs = Math.min(capMs, state.goneMs + (job.capS ?? 120) * 1000);
  }
  state.over = true;
  await during;
  if (state.failure !== undefined) throw state.failure;
}

async function acting(running, job) {
  running.state.stop = (await job.during?.(running)) === true;
}
