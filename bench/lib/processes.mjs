// What processes cost, from /proc: CPU time, memory, wake-ups. A process that is gone costs nothing more.
import fs from 'node:fs';

/** The process and all below it, but not `without` and what is below that. */
export function tree(pid, without) {
  const found = [];
  const left = [pid];
  while (left.length > 0) {
    const next = left.pop();
    if (next === without) continue;
    found.push(next);
    left.push(...childrenOf(next));
  }
  return found;
}

export function childrenOf(pid) {
  return textOf(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

export function commandOf(pid) {
  return textOf(`/proc/${pid}/cmdline`).split('\0').join(' ');
}

/** Memory of its own and its share of what others use, too (proc_pid_smaps_rollup): may be added up. */
export function pssMiB(pid) {
  return Number(/^Pss:\s+(\d+)/m.exec(textOf(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) / 1024;
}

/** Of all its threads, and with `reaped` of the children that it has waited for (proc_pid_stat(5): ticks of 10 ms). */
export function cpuS(pid, reaped = false) {
  const fields = textOf(`/proc/${pid}/stat`).replace(/^.*\)/s, '').trim().split(' ').map(Number);
  if (fields.length < 15) return 0;
  const own = fields[11] + fields[12];
  return (reaped ? own + fields[13] + fields[14] : own) / 100;
}

/** How often its threads have gone to sleep by themselves: each wake-up from idle is followed by one. */
export function sleeps(pid) {
  let sum = 0;
  for (const thread of entriesOf(`/proc/${pid}/task`))
    sum += Number(
      /^voluntary_ctxt_switches:\s+(\d+)/m.exec(textOf(`/proc/${pid}/task/${thread}/status`))?.[1] ?? 0,
    );
  return sum;
}

/** Looks at some processes now and then, and keeps the highest sum of their memory. */
export function watchPeak(pids, everyMs = 200) {
  const look = () => {
    const sumMiB = pids().reduce((sum, pid) => sum + pssMiB(pid), 0);
    peak.mostMiB = Math.max(peak.mostMiB, sumMiB);
  };
  const timer = setInterval(look, everyMs);
  const peak = { mostMiB: 0, look, close: () => clearInterval(timer) };
  return peak;
}

/** Ends a tree. Each process is stopped before its children are asked for, so that none is started meanwhile. */
export function killTree(pid) {
  const found = [];
  const left = [pid];
  while (left.length > 0) {
    const next = left.pop();
    signal(next, 'SIGSTOP');
    found.push(next);
    left.push(...childrenOf(next));
  }
  for (const one of found) signal(one, 'SIGKILL');
}

function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone.
  }
}

function entriesOf(dir) {
  try {
    return fs.readdirSync(dir);
  } catch {
    return [];
  }
}

function textOf(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
