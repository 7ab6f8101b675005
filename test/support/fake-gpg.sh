#!/bin/sh
# Stands in for gpg: its messages are the text behind the word SEALED. FAKE_GPG says how it fails; FAKE_KEYS is the file that
# --list-keys prints, FAKE_BROKEN one that makes it fail while it exists, and FAKE_PIDS the file in which each process notes its id.
say() { echo "[GNUPG:] $1" >&3; }
[ -z "$FAKE_PIDS" ] || echo $$ >>"$FAKE_PIDS"

case " $* " in
*' --list-keys '*) exec cat "$FAKE_KEYS" ;;
*' --list-secret-keys '*) echo "$FAKE_SECRET_KEYS"; exit 0 ;;
*' --encrypt '*) [ "$FAKE_GPG" = 'is silent' ] || printf SEALED ;;
*' --decrypt '*)
  head -c 6 >/dev/null
  say ENC_TO
  [ "$FAKE_GPG" = locked ] || say DECRYPTION_INFO ;;
esac

[ -z "$FAKE_BROKEN" ] || [ ! -e "$FAKE_BROKEN" ] || FAKE_GPG=fails
case $FAKE_GPG in
dies) head -c 100000; kill -9 $$ ;;
hangs) head -c 100000; sleep 1000 ;;
lingers) cat; exec >&-; sleep 1000 ;;
'leaves early') head -c 100000; exec <&-; say END_ENCRYPTION; exit 0 ;;
'is slow') cat; sleep 0.3; say END_ENCRYPTION; say DECRYPTION_OKAY ;;
'is silent') cat >/dev/null; say END_ENCRYPTION; exit 0 ;;
'says nothing') cat; exit 0 ;;
fails)
  cat
  echo 'session key: 9:SECRET' >&2
  printf 'gpg: no space \033[2J left\n' >&2
  say DECRYPTION_FAILED
  exit 2 ;;
locked) cat >/dev/null; say DECRYPTION_FAILED; echo 'gpg: decryption failed: No secret key' >&2; exit 2 ;;
*) cat; echo 'session key: 9:SECRET' >&2; say END_ENCRYPTION; say DECRYPTION_OKAY ;;
esac
