#!/bin/bash
# The real-world tests: real LAMMPS and SQLite, and the examples of programs in real programs; GNU parallel, a real Slurm, a
# real Grid Engine, a real Ceph object store, several machines on a real Redis, all on loopback; the pages of capture report,
# capture queue ui and the documentation site in a real Chromium; and what npm installs without a compiler, on newer Nodes;
# signatures, beside those of botocore; and what --encrypt stores, with age and gpg.
# `npm run test:real [-- vitest options]`.
# Installs what is missing (Debian packages), stops everything it starts on every way out, never skips.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly packages=(lmod buildah debootstrap binutils ceph-mon ceph-osd ceph-common radosgw lammps openmpi-bin slurmctld slurmd slurm-client python3 parallel pssh openssh-server gridengine-master gridengine-exec gridengine-client chromium fonts-dejavu-core redis-server openssl systemd python3-botocore procps gromacs python3-numpy python3-h5py python3-mpi4py age gnupg zstd rclone)
readonly programs=(buildah debootstrap readelf ceph-mon ceph-osd ceph radosgw radosgw-admin lmp mpirun slurmctld slurmd sbatch python3 parallel parallel-ssh sshd qsub sge_qmaster sge_execd chromium redis-server redis-cli openssl systemd-analyze pgrep gmx age gpg zstd)

say() { echo "test:real: $*" >&2; }

missing() {
  for program in "${programs[@]}"; do command -v "$program" >/dev/null || echo "$program"; done
  for module in botocore numpy h5py mpi4py; do /usr/bin/python3 -c "import $module" 2>/dev/null || echo "python3-$module"; done
  [ -e /usr/share/lmod/lmod/init/bash ] || echo lmod
}

install_packages() {
  local absent
  absent=$(missing | xargs)
  [ -n "$absent" ] || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    say "not here: $absent. Run as root on Debian 12, or install: ${packages[*]}"
    return 69
  fi
  say "installing ${packages[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$dir/apt.log" 2>&1 ||
    { tail -n 20 "$dir/apt.log" >&2; return 69; }
}

child=
clean_up() {
  local status=$?
  trap - EXIT
  trap '' HUP INT TERM
  [ -z "$child" ] || { kill "$child" 2>/dev/null && wait "$child"; } || true
  test/real/slurm.sh down "$dir/slurm" || true
  test/real/ceph-rgw.sh down "$dir/ceph" || true
  rm -rf "$dir"
  exit $status
}
dir=$(mktemp -d -p /dev/shm capture-real.XXXXXX)
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# In the background, so that a signal is obeyed at once and not when the command has ended.
run() {
  "$@" &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=
  return $status
}

install_packages
say "building capture"
run npm run --silent build
say "starting a Ceph object store in $dir"
run test/real/ceph-rgw.sh up "$dir/ceph" >"$dir/env"
say "starting a Slurm cluster in $dir"
run test/real/slurm.sh up "$dir/slurm" >>"$dir/env"
set -a
# shellcheck disable=SC1091
. "$dir/env"
CAPTURE_TEST_S3_URL=s3://capture-test/real
# Each step of a run, and some random moments: `npm run test:crash` tries many more of these.
CRASH_DEATHS=${CRASH_DEATHS:-280}
# In memory, and removed with the rest when the tests are killed.
TMPDIR=$dir/tmp
mkdir "$TMPDIR"
set +a
say "testing against $AWS_ENDPOINT_URL"
run node_modules/.bin/vitest run --config vitest.real.config.ts "$@"
