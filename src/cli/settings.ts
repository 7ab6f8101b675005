// From options to settings. Each group of options returns its part; here they are put together, with all mistakes at
// once. Reads nothing but what it is given.
import type { Mistake } from '../model/errors.ts';
import type { Settings } from '../model/format/settings.ts';
import type { GivenOptions } from './options.ts';
import { checkpointsContradictions, checkpointsOf } from './options/checkpoints.ts';
import { endContradictions, endOf } from './options/end.ts';
import { filesOf } from './options/files.ts';
import { identityOf } from './options/identity.ts';
import { localContradictions, localOf, workdirOf } from './options/local.ts';
import { messagesOf, metricsOf } from './options/messages.ts';
import { outputContradictions, outputLimitOf } from './options/output.ts';
import { sendingOf } from './options/sending.ts';
import { startOf } from './options/start.ts';
import { stopContradictions, stopOf } from './options/stop.ts';
import { storeContradictions, storeOf, storesInside } from './options/store.ts';
import { type Place, Values } from './options/values.ts';

interface SettingsInput extends Omit<Place, 'workdir'> {
  readonly given: GivenOptions;
}

interface SettingsOutput {
  /** To be used only when there are no mistakes. */
  readonly settings: Settings;
  readonly mistakes: readonly Mistake[];
}

export function settingsOf(input: SettingsInput): SettingsOutput {
  const mistakes: Mistake[] = [];
  const values = new Values(input.given, input.cwd, mistakes);
  const workdir = workdirOf(values, input);
  const place: Place = { ...input, workdir };
  const files = filesOf(values, place);
  const store = storeOf(values, place);
  const identity = identityOf(values, place);
  const local = localOf(values);
  const { newest, ...checkpoints } = checkpointsOf(values, place);
  const start = startOf(values, place);
  const notices = stopOf(values, place);
  const end = endOf(values, place);
  const { doneWhen } = end.endRules;
  const settings: Settings = {
    workdir,
    manifest: {
      ...files,
      // The result that counts is a result, whether or not another pattern says so.
      results: doneWhen === undefined ? files.results : [...new Set([...files.results, doneWhen])],
      newest,
      skip: storesInside(store, place),
    },
    ...store,
    identity,
    ...local,
    ...checkpoints,
    ...start,
    notices,
    ...end,
    ...sendingOf(values),
    outputLimitBytes: outputLimitOf(values),
    log: messagesOf(values),
    metrics: metricsOf(values),
  };
  // Options that are each right, but contradict each other.
  mistakes.push(
    ...storeContradictions(settings, place),
    ...localContradictions(values, settings),
    ...checkpointsContradictions(values),
    ...stopContradictions(values),
    ...outputContradictions(values),
    ...endContradictions(values, settings, input.command),
  );
  return { settings, mistakes };
}
