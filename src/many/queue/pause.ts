// `capture worker pause` and `resume`: a person at the machine gets it back for a while.
import type { Command } from '../../cli/command.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { formatMs, plural } from '../../model/units.ts';
import { tellWorkers } from './control.ts';
import { PAUSE } from './options.ts';

const NO_WORKER = 'no worker of this user runs on this machine';

export const pauseCommand: Command<ValuesOf<typeof PAUSE>> = {
  name: 'worker pause',
  help: {
    about:
      'Gives this machine back to the person at it: your workers here start nothing more, and what they run checkpoints and ' +
      'goes back to the queue, or is frozen where it is.',
    statuses: { 0: 'paused', 1: NO_WORKER },
    examples: ['capture worker pause --for 2h', 'capture worker pause --how stop'],
  },
  options: Object.values(PAUSE),
  read: ({ values }) => values.all(PAUSE),
  act: async ({ how, forMs }, { log, env }) => {
    const told = await tellWorkers({ act: 'pause', how, forMs }, env);
    if (told.length === 0) throw noWorker();
    const until = forMs === undefined ? 'until capture worker resume' : `for ${formatMs(forMs)}`;
    log.info(`${plural(told.length, 'worker')} paused ${until}`);
    return EXIT.ok;
  },
};

export const resumeCommand: Command<true> = {
  name: 'worker resume',
  help: {
    about: 'Ends the pause of your workers on this machine before its time.',
    statuses: { 0: 'they go on', 1: NO_WORKER },
    examples: ['capture worker resume'],
  },
  options: [],
  read: () => true,
  act: async (_, { log, env }) => {
    const told = await tellWorkers({ act: 'resume' }, env);
    if (told.length === 0) throw noWorker();
    log.info(`${plural(told.length, 'worker')} resumed`);
    return EXIT.ok;
  },
};

function noWorker(): CaptureError {
  return new CaptureError(1, NO_WORKER, {
    hint: 'capture worker --queue redis://host:6379/name starts one',
  });
}
