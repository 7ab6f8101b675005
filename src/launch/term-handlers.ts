// Whether a process will make use of SIGTERM: it catches it, and is none of the programs that only pass it on
// to end what they have started. Pure; what the kernel says of a process is read by the launcher.

/** signal(7): SIGTERM's bit in the masks of proc_pid_status(5). */
const SIGTERM_BIT = 1n << 14n;

/** Programs that catch SIGTERM to end their children with it. Their names have at most 15 bytes: proc_pid_comm(5). */
const BARE_LAUNCHERS: ReadonlySet<string> = new Set(
  [
    'mpirun mpiexec mpiexec.hydra orterun prterun orted prted prte hydra_pmi_proxy hydra_bstrap_pr mpispawn',
    'srun slurmstepd aprun jsrun palsd timeout tini dumb-init catatonit docker-init apptainer singularity',
    'starter starter-suid conmon podman docker sudo su strace time xvfb-run',
  ].flatMap((names) => names.split(' ')),
);

/**
 * `status`, `comm` and `cmdline` as proc_pid_status(5), proc_pid_comm(5) and proc_pid_cmdline(5) have them. A name in
 * either is enough: a program may rename its main thread (Node 24: `MainThread`), and behind a script's `#!` the
 * command line begins with the interpreter.
 */
export function handlesTerm(status: string, comm: string, cmdline: string): boolean {
  const argv0 = cmdline.split('\0', 1)[0] ?? '';
  const names = [comm.trim(), argv0.slice(argv0.lastIndexOf('/') + 1)];
  if (names.some((name) => BARE_LAUNCHERS.has(name))) return false;
  const mask = /^SigCgt:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  return mask !== undefined && (BigInt(`0x${mask}`) & SIGTERM_BIT) !== 0n;
}
