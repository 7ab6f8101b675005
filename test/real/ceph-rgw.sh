#!/bin/bash
# Starts or stops a Ceph object store (one mon, one osd in memory, one radosgw) on loopback, for tests.
# Needs Debian's ceph-mon, ceph-osd, ceph-common and radosgw, but neither root nor systemd.
#
#   ceph-rgw.sh up <dir>     prints the AWS environment of a ready server as KEY=value lines
#   ceph-rgw.sh down <dir>   stops what `up` started there and removes the directory
#
# <dir> is best a new directory on tmpfs. The daemons stay in the caller's process group.
set -euo pipefail

# shellcheck source=test/real/daemons.sh
. "$(dirname "$0")/daemons.sh"
[ $# -eq 2 ] || usage
dir=$2
conf=$dir/ceph.conf
access_key=capturetest
secret_key=capturetestsecret

free_port() {
  node -e 'const s = require("node:net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'
}

write_conf() { # <fsid> <mon port> <rgw port>
  cat >"$conf" <<CONF
[global]
fsid = $1
mon_host = [v2:127.0.0.1:$2]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = $dir/keyring
run_dir = $dir/run
admin_socket = $dir/run/\$name.asok
log_file = $dir/log/\$name.log
crash_dir = $dir/crash
pid_file =
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 2000
mon_data_avail_crit = 0
[mon.a]
mon_data = $dir/mon
[osd]
osd_data = $dir/osd
osd_objectstore = memstore
memstore_device_bytes = $((8 << 30))
osd_memory_target = $((1 << 30))
osd_max_object_name_len = 2048
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:$3
rgw_data = $dir/rgw
rgw_thread_pool_size = 64
rgw_run_sync_thread = false
CONF
}

# cephx on purpose: with authentication off, radosgw 16 never gets past the mon.
write_keyring() {
  local keyring=$dir/keyring
  ceph-authtool --create-keyring "$keyring" --gen-key -n mon. --cap mon 'allow *'
  ceph-authtool "$keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *'
  ceph-authtool "$keyring" --gen-key -n client.rgw --cap mon 'allow *' --cap osd 'allow *'
  ceph-authtool "$keyring" --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *'
}

alive() { # <name>
  [ -s "$dir/$1.pid" ] && kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null
}

# Tries <command...> until it succeeds, for up to 60 s, as long as the daemon lives.
wait_for() { # <name> <command...>
  local name=$1 end=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    if ! alive "$name" || [ $SECONDS -ge $end ]; then
      echo "$0: $name did not come up; the end of its output:" >&2
      tail -n 20 "$dir/log/$name.out" >&2
      return 1
    fi
    sleep 0.2
  done
}

osd_is_up() { ceph -c "$conf" osd stat | grep -q '1 up'; }
answers() { node -e 'fetch(process.argv[1]).then(() => process.exit(0), () => process.exit(1))' "$endpoint"; }
# On an overloaded machine radosgw gives up with "failed to fetch mon config": it may start three times.
start_rgw() {
  for _ in 1 2 3; do
    start rgw radosgw -f -c "$conf" -n client.rgw
    wait_for rgw answers && return
  done
  return 1
}

up() {
  mkdir -p "$dir"/{mon,osd,rgw,run,log}
  local fsid mon_port
  fsid=$(cat /proc/sys/kernel/random/uuid)
  mon_port=$(free_port)
  endpoint=http://127.0.0.1:$(free_port)
  write_conf "$fsid" "$mon_port" "${endpoint##*:}"
  write_keyring >>"$dir/log/up.out"

  # An explicit map: made from mon_host alone, the mon is called "noname-a" and reopens its store for ever.
  monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$mon_port]" "$dir/monmap" >>"$dir/log/up.out"
  ceph-mon -c "$conf" -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring" >>"$dir/log/up.out" 2>&1
  start mon ceph-mon -f -c "$conf" -i a
  wait_for mon ceph -c "$conf" --connect-timeout 5 quorum_status

  local osd_id
  osd_id=$(cat /proc/sys/kernel/random/uuid)
  ceph -c "$conf" osd new "$osd_id" 0 >>"$dir/log/up.out"
  ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$osd_id" >>"$dir/log/up.out" 2>&1
  start osd ceph-osd -f -c "$conf" -i 0
  wait_for osd osd_is_up

  start_rgw
  radosgw-admin -c "$conf" -n client.rgw user create --uid=capture --display-name=capture \
    --access-key="$access_key" --secret="$secret_key" >>"$dir/log/up.out" 2>&1

  echo "AWS_ENDPOINT_URL=$endpoint"
  echo "AWS_ACCESS_KEY_ID=$access_key"
  echo "AWS_SECRET_ACCESS_KEY=$secret_key"
  echo "AWS_REGION=us-east-1"
}

# Process ids are used again: only one that runs with our configuration is ours.
is_ours() { tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qxF "$conf"; }

down() {
  # Without its configuration this is no directory of ours, and is not removed.
  [ -f "$conf" ] || return 0
  stop rgw
  stop osd
  stop mon
  rm -rf "$dir"
}

up_or_down "$1"
