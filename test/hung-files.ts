// A bound for test files that hang where no timeout of vitest reaches: in a call that blocks their process, or while they are
// loaded. Each file has a process of its own. One that is too old is shown with what runs below it; the processes below it are
// killed first, so that the call returns and the test fails by its name.
import { execFileSync } from 'node:child_process';

/** The longest files take some eight minutes, on a busy machine up to three times as long. */
const LONGEST_SECONDS = 25 * 60;

const LOOK_EVERY_MS = 30_000;

/** The word with which `test/process-title.ts` begins. */
const TITLE = 'test-file:';

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly seconds: number;
  readonly line: string;
}

/** All processes, by ps(1). */
function processes(): readonly Process[] {
  const columns = 'pid=,ppid=,etimes=,stat=,wchan:24=,args=';
  const listed = execFileSync('ps', ['-ww', '-axo', columns], { encoding: 'utf8', timeout: 10_000 });
  return listed.split('\n').flatMap((line) => {
    const [pid = Number.NaN, parent = Number.NaN, seconds = Number.NaN] = line.trim().split(/ +/).map(Number);
    return Number.isNaN(seconds) ? [] : [{ pid, parent, seconds, line }];
  });
}

function below(pid: number, all: readonly Process[]): readonly Process[] {
  const children = all.filter(({ parent }) => parent === pid);
  return [...children, ...children.flatMap((child) => below(child.pid, all))];
}

function endHung(): void {
  const all = processes();
  const ours = all.filter(({ parent, line }) => parent === process.pid && line.includes(TITLE));
  for (const file of ours.filter(({ seconds }) => seconds > LONGEST_SECONDS)) {
    const rest = below(file.pid, all);
    console.error(['A test file hangs:', ...[file, ...rest].map(({ line }) => line)].join('\n'));
    for (const { pid } of rest.length > 0 ? rest : [file]) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended meanwhile.
      }
    }
  }
}

/** Vitest's global set-up: looks at the processes of the test files as long as tests run. */
export function setup(): () => void {
  const timer = setInterval(endHung, LOOK_EVERY_MS);
  return () => clearInterval(timer);
}
