// What `capture flush --help` prints.

export const FLUSH_HELP = `Usage: capture flush [options]

Blocks until everything that the task had closed before this call is durable and recorded: results
are stored, a complete set of checkpoints is committed. Companions, and results that are open and
only appended to, are stored as far as they are written; other files that are open are named on
stderr. It vouches for what was closed: that stays good however the task ends, so call it only when
the step before has ended well. For the scripts of a task, between steps; capture tells them the
name of its control socket in CAPTURED_SOCKET. The options of a run are taken, too, and mean nothing
here.

Options:
  --timeout <duration>  the most to wait: ms, s, m, h, d (default: 30s, with --ping 5s)
  --strict              74 as well when a checkpoint is open, or its set is not complete
  --ping                ask nothing, only see whether capture watches: a probe for containers
  --control <path>      the socket of a 'capture watch --control <path>'
                        (default: CAPTURED_SOCKET, then CAPTURE_CONTROL)
  -h, --help            this text
  -V, --version         the version of capture

Exit status:
    0  durable and recorded; what is still missing from a set of checkpoints is said on stderr
   64  an option is wrong
   69  nobody answers at the socket, or none is named
   74  not in time: what is not stored stands on stderr, and why

Examples:
  capture flush
  capture flush --timeout 5m || exit 1
  capture flush --ping --control /shared/control
`;
