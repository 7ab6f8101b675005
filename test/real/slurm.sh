#!/bin/bash
# Starts or stops a Slurm cluster of one host on loopback, for tests: one slurmctld and a slurmd for each of its
# nodes of one core. Needs Debian's slurmctld, slurmd and slurm-client, and root (jobs change their user), but
# neither systemd nor munge.
#
#   slurm.sh up <dir>     prints the environment of a ready cluster as KEY=value lines
#   slurm.sh down <dir>   ends its jobs, stops what `up` started there and removes the directory
#
# <dir> must be a new directory. The daemons stay in the caller's process group.
# Partitions: low (n0 to n7) and side (n9 to n15), where what is preempted is requeued at once; grace (n8), where it
# has a minute; high, which preempts low, and over, which preempts the other two.
set -euo pipefail

# shellcheck source=test/real/daemons.sh
. "$(dirname "$0")/daemons.sh"
[ $# -eq 2 ] || usage
dir=$2
export SLURM_CONF=$dir/slurm.conf
readonly nodes=16

free_ports() { # <count>
  node -e '
    const { createServer } = require("node:net");
    const open = () => new Promise((resolve) => { const s = createServer().listen(0, "127.0.0.1", () => resolve(s)); });
    Promise.all(Array.from({ length: Number(process.argv[1]) }, open)).then((servers) => {
      for (const s of servers) { console.log(s.address().port); s.close(); }
    });' "$1"
}

# cred_expire: a requeued job waits a second longer than that (default: two minutes; the least is 5 s).
# preempt_send_user_signal: preemption sends what `sbatch --signal` names at the begin of the grace.
write_conf() { # <port>...
  local host
  host=$(hostname -s)
  cat <<CONF
ClusterName=capture
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.own-pid
SlurmdPidFile=$dir/%n.own-pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
SlurmdTimeout=300
MessageTimeout=60
KillWait=20
JobRequeue=1
RequeueExit=99
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
PartitionName=low Nodes=n[0-7] Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=high Nodes=n[0-7] State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=grace Nodes=n8 State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=over Nodes=n[8-15] State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=side Nodes=n[9-15] State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
CONF
  shift
  local node=0
  for port in "$@"; do
    echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$port CPUs=1 RealMemory=1000"
    node=$((node + 1))
  done
}

# Process ids are used again: only one that runs with our configuration is ours.
is_ours() { tr "\0" "\n" <"/proc/$1/environ" | grep -qxF "SLURM_CONF=$SLURM_CONF"; } 2>/dev/null

idle_nodes() { sinfo -h -N -o '%N %T' 2>/dev/null | grep -w idle | sort -u | wc -l; }

up() {
  mkdir -p "$dir"/{state,spool,log}
  local ports end=$((SECONDS + 60))
  mapfile -t ports < <(free_ports $((nodes + 1)))
  write_conf "${ports[@]}" >"$SLURM_CONF"
  start slurmctld slurmctld -D
  for ((node = 0; node < nodes; node++)); do
    mkdir -p "$dir/spool/n$node"
    start "n$node" slurmd -D -N "n$node"
  done
  until [ "$(idle_nodes)" -eq $nodes ]; do
    if [ $SECONDS -ge $end ] || ! kill -0 "$(cat "$dir/slurmctld.pid")" 2>/dev/null; then
      echo "$0: of $nodes nodes only $(idle_nodes) are idle; the end of the controller's log:" >&2
      tail -n 20 "$dir/log/slurmctld.log" "$dir/log/slurmctld.out" >&2 || true
      return 1
    fi
    sleep 0.2
  done
  echo "SLURM_CONF=$SLURM_CONF"
}

# By Slurm where its controller still lives: a signal for our whole process group may have ended it before us.
cancel_jobs() {
  local jobs
  jobs=$(timeout 5 squeue -h -o %A 2>/dev/null | sort -u) || return 0
  [ -z "$jobs" ] || xargs timeout 5 scancel --full -s KILL <<<"$jobs" 2>/dev/null || true
}

# What jobs have started carries our configuration in its environment, and so do the daemons that watch over them.
kill_jobs() {
  local proc pid
  for proc in /proc/[0-9]*; do
    pid=${proc#/proc/}
    [ "$pid" -eq $$ ] || ! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null || true
  done
}

down() {
  # Without its configuration this is no directory of ours, and is not removed.
  [ -f "$SLURM_CONF" ] || return 0
  ! kill -0 "$(cat "$dir/slurmctld.pid")" 2>/dev/null || cancel_jobs
  # All at once: each takes a second.
  for pid_file in "$dir"/*.pid; do stop "$(basename "$pid_file" .pid)" & done
  wait
  kill_jobs
  kill_jobs # what was being started meanwhile
  rm -rf "$dir"
}

up_or_down "$1"
