# Sourced by the scripts that start servers for the tests. They set `dir`, and say with `is_ours <pid>` whether a
# process is one of theirs (process ids are used again), and with `up` and `down` what they start and stop.

usage() {
  echo "usage: $0 up|down <dir>" >&2
  exit 64
}

start() { # <name> <command...>
  local name=$1
  shift
  "$@" >>"$dir/log/$name.out" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
}

stop() { # <name>
  [ -s "$dir/$1.pid" ] || return 0
  local pid end=$((SECONDS + 10))
  pid=$(cat "$dir/$1.pid")
  is_ours "$pid" || return 0
  kill "$pid" 2>/dev/null || true
  while is_ours "$pid" && [ $SECONDS -lt $end ]; do sleep 0.1; done
  ! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null || true
}

# What was started is stopped again when not all of it comes up.
up_or_down() { # up|down
  case $1 in
    up)
      trap 'status=$?; [ $status -eq 0 ] || down; exit $status' EXIT
      up
      ;;
    down) down ;;
    *) usage ;;
  esac
}
