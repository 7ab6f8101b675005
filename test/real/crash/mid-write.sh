#!/bin/bash
# mid-write.sh LOG PAUSE_MS DIE_AT RECORDS: makes rounds of a.chk, b.chk and a first result each, the second one when a
# checkpoint is recorded in the directory RECORDS, and is killed by SIGKILL in the middle of writing the DIE_AT-th file.
# Every file holds its number in four lines; after each close a line goes to LOG. Starts no process.
log=$1 die_at=$3 records=$4
printf -v pause '%d.%03d' $(($2 / 1000)) $(($2 % 1000))
exec 9<>"$log.fifo"
count=0
write() {
  count=$((count + 1))
  exec 3>"$1"
  printf '%s\n%s\n' "$2" "$2" >&3
  if [ "$count" -eq "$die_at" ]; then
    echo "torn $1 $2" >>"$log"
    kill -KILL $$
  fi
  printf '%s\n%s\n' "$2" "$2" >&3
  exec 3>&-
  echo "closed $1 $2" >>"$log"
}
round=0
[ ! -e a.chk ] || read -r round <a.chk
while :; do
  round=$((round + 1))
  write "r.$round.dat" "$round"
  write a.chk "$round"
  write b.chk "$round"
  read -rt "$pause" <&9
  until compgen -G "$records/*.checkpoint.json" >/dev/null; do read -rt 0.02 <&9; done
done
