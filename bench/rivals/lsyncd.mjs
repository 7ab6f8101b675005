// lsyncd: events are gathered for 1 s, its shortest delay, then one `rclone copyto` for each file, at most eight at once.
import { RUN_TASK } from './shell.mjs';

const COPY = '"rclone -q copyto ^sourcePathname s3:$BUCKET/$PREFIX/^pathname || true"';
const MOVED = '"rclone -q copyto ^d.sourcePathname s3:$BUCKET/$PREFIX/^d.pathname || true"';

export const lsyncd = {
  name: 'lsyncd, rclone copyto',
  needs: ['lsyncd', 'rclone'],
  heavy: true,
  script: `
  cat >"$STATE/lsyncd.lua" <<END
settings { nodaemon = true, inotifyMode = "CloseWrite", maxProcesses = 8, statusFile = "$STATE/lsyncd.status" }
sync {
  { maxProcesses = 8, delay = 1, onCreate = ${COPY}, onModify = ${COPY}, onMove = ${MOVED}, onDelete = "true", onStartup = "true" },
  source = "$PWD",
}
END
  lsyncd "$STATE/lsyncd.lua" & lsyncd=$!
  sleep 0.7
  ${RUN_TASK}
  # It says to nobody that it has nothing left to do: no copy for more than its delay.
  sleep 2
  for ((quiet = 0; quiet < 12; )); do
    read -r children </proc/$lsyncd/task/$lsyncd/children
    if [ -z "$children" ]; then quiet=$((quiet + 1)); else quiet=0; fi
    sleep 0.1
  done
  kill $lsyncd; wait $lsyncd
  exit $status`,
  nameOf: (key) => key,
};
