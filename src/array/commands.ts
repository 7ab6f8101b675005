// The table of commands on an array, by the first word. A new one has its folder here, its line in this table, its name
// in cli/array-commands.ts and in bin/capture.
import type { ArrayCommandName } from '../cli/array-commands.ts';
import type { ArrayCommand } from './command.ts';
import { catCommand } from './cat/cat.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { gatherCommand } from './gather/gather.ts';
import { logsCommand } from './logs/logs.ts';
import { lsCommand } from './ls/ls.ts';
import { pruneCommand } from './prune/prune.ts';
import { reportCommand } from './report/report.ts';
import { rmCommand } from './rm/rm.ts';
import { statusCommand } from './status/status.ts';
import { verifyCommand } from './verify/verify.ts';
import { waitCommand } from './wait/wait.ts';

export const COMMANDS: Readonly<Record<ArrayCommandName, ArrayCommand>> = {
  status: statusCommand,
  gather: gatherCommand,
  ls: lsCommand,
  cat: catCommand,
  verify: verifyCommand,
  rm: rmCommand,
  prune: pruneCommand,
  logs: logsCommand,
  report: reportCommand,
  doctor: doctorCommand,
  wait: waitCommand,
};
