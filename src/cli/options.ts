// All options of a run, and its settings, joined from their groups. Parsing, environment and help derive from the table.
// It reads nothing but its arguments.
import type { Settings } from '../model/format/settings.ts';
import { CHECKPOINTS, checkpointsOf, refuseCheckpoints } from './options/checkpoints.ts';
import { END, endOf, refuseEnds } from './options/end.ts';
import { FILES, filesOf } from './options/files.ts';
import { IDENTITY, identityOf } from './options/identity.ts';
import { LOCAL, localOf, refuseLocal, workdirOf } from './options/local.ts';
import { MESSAGES, messagesOf, outputLimitOf, refuseOutput } from './options/messages.ts';
import { SEALING, sealingOf } from './options/sealing.ts';
import { SENDING } from './options/sending.ts';
import { CAPTURING, RUN, type RunName, type RunOption } from './options/spec.ts';
import { START, startOf } from './options/start.ts';
import { refuseNotices, STOP, stopOf } from './options/stop.ts';
import { refuseStore, STORE, storeOf, storesInside } from './options/store.ts';
import type { RunCaller, Values } from './options/values.ts';

/** Options of the commands that accompany a task, in the order of the help. */
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
  SEALING,
  MESSAGES,
].flatMap((options): readonly RunOption[] => Object.values(options));

/** The options that have a meaning for this command. */
export function optionsOf(command: RunName): readonly RunOption[] {
  return RUN_OPTIONS.filter(({ on }) => on.includes(command));
}

/**
 * Options of other commands that this one accepts and ignores, so that one list of options serves all: the options of a
 * run, and for a restore also those of the watch that may follow.
 */
export function idleOptionsOf(command: RunName): readonly RunOption[] {
  const accepted = command === 'restore' ? CAPTURING : RUN;
  return RUN_OPTIONS.filter(
    ({ on }) => !on.includes(command) && accepted.some((other) => on.includes(other)),
  );
}

/**
 * The settings of a run. Each group returns its part. All mistakes are added to `values`: use the result only if there are
 * none.
 */
export function settingsOf(values: Values, run: Omit<RunCaller, 'workdir'>): Settings {
  const workdir = workdirOf(values, run);
  const caller: RunCaller = { ...run, workdir };
  const files = filesOf(values, caller);
  const store = storeOf(values, caller);
  const identity = identityOf(values, caller);
  const local = localOf(values, caller);
  const { newest, ...checkpoints } = checkpointsOf(values, caller);
  const start = startOf(values, caller);
  const notices = stopOf(values, caller);
  const end = endOf(values, caller);
  const { doneWhen } = end.endRules;
  const settings: Settings = {
    workdir,
    manifest: {
      ...files,
      // The file of --done-when is a result, even if no other pattern matches it.
      results: doneWhen === undefined ? files.results : [...new Set([...files.results, doneWhen])],
      newest,
      skip: storesInside(store, caller),
    },
    ...store,
    identity,
    ...local,
    ...checkpoints,
    ...start,
    notices,
    ...end,
    ...values.all(SENDING),
    seal: sealingOf(values, caller),
    outputLimitBytes: outputLimitOf(values),
    log: messagesOf(values),
    metrics: values.of(MESSAGES.metrics),
  };
  // Options that are valid alone, but contradict each other.
  refuseStore(values, settings, caller);
  refuseLocal(values, settings, run.command);
  refuseCheckpoints(values);
  refuseNotices(values);
  refuseOutput(values);
  refuseEnds(values, settings, run.command);
  return settings;
}
