// The task works inside an rclone mount; a file is sent 1 s after its close (the default is 5 s).
import { RUN_TASK } from './shell.mjs';

export const rcloneMount = {
  name: 'rclone mount',
  needs: ['rclone', 'fusermount3'],
  script: `
  mount=$STATE/mount; mkdir -p "$mount" "$STATE/cache"
  port=$((20000 + $$ % 20000))
  rclone mount "s3:$BUCKET/$PREFIX" "$mount" --vfs-cache-mode writes --vfs-write-back 1s --cache-dir "$STATE/cache" \\
    --rc --rc-addr "127.0.0.1:$port" --rc-no-auth & rclone=$!
  until mountpoint -q "$mount"; do kill -0 $rclone || exit 1; sleep 0.05; done
  # Ready only when it has nothing to send: without a process for each look.
  sends() {
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /vfs/stats HTTP/1.0\\r\\n\\r\\n' >&3
    stats=; while read -r line; do stats+=$line; done <&3
    exec 3>&-
    [[ $stats =~ '"uploadsInProgress": '[1-9] || $stats =~ '"uploadsQueued": '[1-9] ]]
  }
  cd "$mount"
  ${RUN_TASK}
  cd /
  while sends; do sleep 0.1; done
  fusermount3 -u "$mount" || fusermount3 -uz "$mount"
  wait $rclone
  exit $status`,
  cleanUp: 'fusermount3 -uz "$STATE/mount" 2>/dev/null; true',
  nameOf: (key) => key,
};
