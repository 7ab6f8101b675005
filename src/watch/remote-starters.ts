// Programs that have their work done by a daemon: what writes the task's files is none of their descendants. Data.

/** By the name in proc_pid_comm(5), which has at most 15 bytes. */
const REMOTE_STARTERS: ReadonlySet<string> = new Set(
  [
    'srun aprun jsrun palsrun flux lsrun blaunch qrsh pbsdsh pbs_tmrsh condor_ssh_to_',
    'docker nerdctl ctr crictl kubectl oc machinectl systemd-run ssh rsh pdsh at batch sbatch qsub bsub',
  ].flatMap((names) => names.split(' ')),
);

export function isRemoteStarter(name: string): boolean {
  return REMOTE_STARTERS.has(name);
}
