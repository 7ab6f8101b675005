// task.mjs ROUNDS PAUSE_MS LOG: makes so many rounds more than its checkpoint has. Each file says its own name
// and round in every line, so that a file that is whole can be told from any other state. After each close one
// line goes to LOG, which is written outside the work directory.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { content } from './content.mjs';

const [rounds, pauseMs, log] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]];
const roundOf = (name) => Number(fs.readFileSync(name, 'utf8').split('\n')[0].split(' ')[1]);
const say = (line) => fs.appendFileSync(log, `${line}\n`);
const write = (name, round, to = name) => {
  fs.writeFileSync(to, content(name, round));
  if (to !== name) fs.renameSync(to, name);
  say(`closed ${name} ${round}`);
};

const resumed = process.env.CAPTURED_RESTORED !== '';
const [a, b] = resumed ? [roundOf('a.chk'), roundOf('b.chk')] : [0, 0];
const total = fs.existsSync('total.txt') ? roundOf('total.txt') : 0;
say(`from ${a} ${b} ${total} ${fs.readFileSync('in.dat', 'utf8') === content('in.dat', 0)}`);
fs.mkdirSync('out', { recursive: true });
fs.mkdirSync('sub/dir', { recursive: true });
for (let round = a + 1; round <= a + rounds; round += 1) {
  write(`out/r${round}.dat`, round);
  write(`sub/dir/m${round % 2}.dat`, round, 'sub/dir/new');
  write('run.log', round);
  write('total.txt', round);
  write('a.chk', round);
  write('b.chk', round);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
}
// A process ends just before this close, so a death may have made it: it is staged before it has its name.
spawnSync('true');
write('out/end.dat', a + rounds);
// If the task ended now, the end would settle all doubt before the file is read.
if (/stage|promote/.test(process.env.CRASH_AT ?? ''))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
