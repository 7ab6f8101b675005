// How much memory capture's two processes take at most (VmHWM, proc(5)), and how much CPU time the sidecar: idle, for
// large files that do not compress, and for many small files. Usage: npm run build && node bench/memory.mjs [MiB] [files] [cases with this word]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startSink } from './sink.mjs';

const [sizeMiB = 1024, files = 200_000] = process.argv.slice(2, 4).map(Number);
const word = process.argv[4] ?? '';
const LOOK_EVERY_MS = 100;
const bin = fileURLToPath(new URL('../bin/capture', import.meta.url));
// In memory: the disk must not set the pace.
const dir = fs.mkdtempSync('/dev/shm/capture-bench-');
const sink = await startSink();

const store = path.join(dir, 'store');
const noise = `dd if=/dev/urandom of=$f bs=1M count=${sizeMiB} status=none; mv $f $f.dat`;
const many = `mkdir out; i=0; while [ $i -lt ${files} ]; do echo $i > out/$i; i=$((i+1)); done`;
const CASES = [
  ['idle, file store', store, ['-r', '*.dat'], 'sleep 3'],
  ['idle, S3', sink.url, ['-r', '*.dat'], 'sleep 3'],
  [`1 file of ${sizeMiB} MiB, S3`, sink.url, ['-r', '*.dat'], `f=a; ${noise}`],
  [
    `4 files of ${sizeMiB} MiB in a row, S3`,
    sink.url,
    ['-r', '*.dat', '--reclaim', 'now'],
    `for f in a b c d; do ${noise}; "$CAPTURE" flush --timeout 10m; done`,
  ],
  [`4 files of ${sizeMiB} MiB, file store`, store, ['-k', '*.dat'], `for f in a b c d; do ${noise}; done`],
  [`${files} files, file store`, store, ['-r', 'out/'], many],
  [
    `${Math.ceil(files / 10)} files, S3`,
    sink.url,
    ['-r', 'out/'],
    many.replace(files, Math.ceil(files / 10)),
  ],
];

try {
  console.log('| | launcher MiB | sidecar MiB | sidecar CPU s | seconds |\n|---|---|---|---|---|');
  for (const [what, to, options, script] of CASES.filter(([name]) => name.includes(word))) {
    const { launcherMiB, sidecarMiB, sidecarCpuS, seconds } = await measured(to, options, script);
    console.log(
      `| ${what} | ${launcherMiB} | ${sidecarMiB} | ${sidecarCpuS.toFixed(1)} | ${seconds.toFixed(0)} |`,
    );
  }
} finally {
  sink.stop();
  fs.rmSync(dir, { recursive: true });
}

async function measured(to, options, script) {
  const work = fs.mkdtempSync(path.join(dir, 'work-'));
  const startMs = performance.now();
  const name = path.basename(work);
  // A prefix of its own: nothing that another case has stored is in the way.
  const args = ['--to', `${to}/${name}`, '--path-style', '--log-level', 'warn', '--task-name', 'bench'];
  const child = spawn(bin, [...args, ...options, '--', 'sh', '-c', script], {
    cwd: work,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { PATH: process.env.PATH, HOME: dir, ...sink.env, CAPTURE: bin },
  });
  const peaks = { launcherMiB: 0, sidecarMiB: 0, sidecarCpuS: 0 };
  const look = () => {
    peaks.launcherMiB = Math.max(peaks.launcherMiB, peakMiB(child.pid));
    const sidecar = childrenOf(child.pid).find((pid) => commandOf(pid).includes('sidecar.mjs'));
    if (sidecar === undefined) return;
    peaks.sidecarMiB = Math.max(peaks.sidecarMiB, peakMiB(sidecar));
    peaks.sidecarCpuS = Math.max(peaks.sidecarCpuS, cpuS(sidecar));
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  const [status] = await once(child, 'close');
  clearInterval(timer);
  const seconds = (performance.now() - startMs) / 1000;
  fs.rmSync(work, { recursive: true });
  fs.rmSync(store, { recursive: true, force: true });
  if (status !== 0) throw new Error(`capture ended with ${status}`);
  return { ...peaks, seconds };
}

/** 0 when the process is gone. */
function peakMiB(pid) {
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readText(`/proc/${pid}/status`))?.[1] ?? 0) / 1024);
}

/** Of all its threads (proc_pid_stat(5), utime and stime in ticks of 10 ms). */
function cpuS(pid) {
  const fields = readText(`/proc/${pid}/stat`).replace(/^.*\)/s, '').trim().split(' ');
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / 100;
}

function childrenOf(pid) {
  return readText(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

function commandOf(pid) {
  return readText(`/proc/${pid}/cmdline`);
}

function readText(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
