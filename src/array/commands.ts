// The commands on an array. A new command has its folder here, its line in this list, and one in cli/commands.ts.
import type { Commands } from '../cli/program.ts';
import { catCommand } from './cat/cat.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { gatherCommand } from './gather/gather.ts';
import { logsCommand } from './logs/logs.ts';
import { lsCommand } from './ls/ls.ts';
import { pruneCommand } from './prune/prune.ts';
import { putCommand } from './put/put.ts';
import { reportCommand } from './report/report.ts';
import { rmCommand } from './rm/rm.ts';
import { statusCommand } from './status/status.ts';
import { verifyCommand } from './verify/verify.ts';
import { waitCommand } from './wait/wait.ts';

export const ARRAY_COMMANDS: Commands = [
  statusCommand,
  putCommand,
  gatherCommand,
  lsCommand,
  catCommand,
  verifyCommand,
  rmCommand,
  pruneCommand,
  logsCommand,
  reportCommand,
  doctorCommand,
  waitCommand,
];
