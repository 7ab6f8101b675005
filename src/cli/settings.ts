// From options to settings. Each group of options returns its part; here they are put together, with all mistakes at
// once. Reads nothing but what it is given.
import type { Settings } from '../model/format/settings.ts';
import { checkpointsOf, refuseCheckpoints } from './options/checkpoints.ts';
import { endOf, refuseEnds } from './options/end.ts';
import { filesOf } from './options/files.ts';
import { identityOf } from './options/identity.ts';
import { localOf, refuseLocal, workdirOf } from './options/local.ts';
import { MESSAGES, messagesOf, outputLimitOf, refuseOutput } from './options/messages.ts';
import { SENDING } from './options/sending.ts';
import { startOf } from './options/start.ts';
import { refuseNotices, stopOf } from './options/stop.ts';
import { refuseStore, storeOf, storesInside } from './options/store.ts';
import type { RunCaller, Values } from './options/values.ts';

/** Mistakes are noted in `values`: use the result only if there are none. */
export function settingsOf(values: Values, run: Omit<RunCaller, 'workdir'>): Settings {
  const workdir = workdirOf(values, run);
  const caller: RunCaller = { ...run, workdir };
  const files = filesOf(values, caller);
  const store = storeOf(values, caller);
  const identity = identityOf(values, caller);
  const local = localOf(values);
  const { newest, ...checkpoints } = checkpointsOf(values, caller);
  const start = startOf(values, caller);
  const notices = stopOf(values, caller);
  const end = endOf(values, caller);
  const { doneWhen } = end.endRules;
  const settings: Settings = {
    workdir,
    manifest: {
      ...files,
      // The result that counts is a result, whether or not another pattern says so.
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
    outputLimitBytes: outputLimitOf(values),
    log: messagesOf(values),
    metrics: values.of(MESSAGES.metrics),
  };
  // Options that are each right, but contradict each other.
  refuseStore(values, settings, caller);
  refuseLocal(values, settings);
  refuseCheckpoints(values);
  refuseNotices(values);
  refuseOutput(values);
  refuseEnds(values, settings, run.command);
  return settings;
}
