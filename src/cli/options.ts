// The table of all options, joined from their groups. Parsing, environment, help and settings are made from it.
import { CHECKPOINTS } from './options/checkpoints.ts';
import { END } from './options/end.ts';
import { FILES } from './options/files.ts';
import { IDENTITY } from './options/identity.ts';
import { LOCAL } from './options/local.ts';
import { MESSAGES } from './options/messages.ts';
import { SENDING } from './options/sending.ts';
import { CAPTURING, RUN, type RunName, type RunOption } from './options/spec.ts';
import { START } from './options/start.ts';
import { STOP } from './options/stop.ts';
import { STORE } from './options/store.ts';

/** Of the commands beside a task, in the order of the help. */
export const RUN_OPTIONS: readonly RunOption[] = [
  FILES,
  STORE,
  IDENTITY,
  LOCAL,
  CHECKPOINTS,
  START,
  STOP,
  END,
  SENDING,
  MESSAGES,
].flatMap((options): readonly RunOption[] => Object.values(options));

/** Those that mean something to this command. */
export function optionsOf(command: RunName): readonly RunOption[] {
  return RUN_OPTIONS.filter(({ on }) => on.includes(command));
}

/**
 * Options of other commands, which this one accepts and does not read, so that one list of options serves all: those
 * of a run, and for a restore also those of the watch that may follow.
 */
export function idleOptionsOf(command: RunName): readonly RunOption[] {
  const accepted = command === 'restore' ? CAPTURING : RUN;
  return RUN_OPTIONS.filter(
    ({ on }) => !on.includes(command) && accepted.some((other) => on.includes(other)),
  );
}
