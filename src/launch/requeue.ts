// The launcher's last act for a preempted task: asks Slurm to start the job again. The exit status is the
// contract and requeueing comes besides: whatever goes wrong here is a warning.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { reasonOf } from '../core/errors.ts';
import { requeueRule, type SlurmJob } from '../core/slurm-job.ts';

/** A controller that does not answer must not hold the node: KillWait runs. */
const ANSWER_WITHIN_MS = 10_000;
/**
 * `scontrol requeue` ends every process of the job, and scontrol is one of them: it must live to tell how it went
 * (an ignored signal stays ignored through exec, execve(2)).
 */
const SURVIVING = 'trap "" TERM HUP; exec scontrol "$@"';

type Say = (line: string, level: 'info' | 'warn', hint?: string) => void;

export async function requeue(job: SlurmJob, nodeChildren: Set<number>, say: Say): Promise<void> {
  try {
    switch (requeueRule(await scontrol(['-o', 'show', 'job', job.id], nodeChildren), job)) {
      case 'requeued':
        return say(`Slurm has requeued job ${job.id} already`, 'info');
      case 'ended':
        return say(`job ${job.id} was cancelled: it is not requeued`, 'info');
      case 'requeue':
        await scontrol(['requeue', job.id], nodeChildren);
        return say(`job ${job.id} is requeued`, 'info');
    }
  } catch (error) {
    const hint = `scontrol requeue ${job.id}; scontrol must be in PATH, and the job submitted with --requeue`;
    say(`job ${job.id} could not be requeued: ${reasonOf(error)}`, 'warn', hint);
  }
}

/** What it prints; throws with its message when it fails or does not answer. */
async function scontrol(args: readonly string[], nodeChildren: Set<number>): Promise<string> {
  const child = spawn('/bin/sh', ['-c', SURVIVING, 'scontrol', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: ANSWER_WITHIN_MS,
    killSignal: 'SIGKILL',
  });
  const { pid } = child;
  // Else the reaper of orphans would take its exit status.
  if (pid !== undefined) nodeChildren.add(pid);
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
    });
  }
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (code === 0) return said.stdout;
    const how = signal === null ? `exit ${code}` : `no answer within ${ANSWER_WITHIN_MS / 1000} s`;
    throw new Error(said.stderr.trim().split('\n', 1)[0] || `scontrol ${args.join(' ')}: ${how}`);
  } finally {
    if (pid !== undefined) nodeChildren.delete(pid);
  }
}
