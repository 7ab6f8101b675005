// `capture worker pause` and `resume`: a person at the machine has it for a while.
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { formatMs, plural } from '../../model/units.ts';
import { type QueueCommand, refuseOperands } from './command.ts';
import { tellWorkers } from './control.ts';
import { PAUSE } from './options.ts';

const NO_WORKER = '    1  no worker of this user runs on this machine';

export const pauseCommand: QueueCommand = {
  title: 'capture worker pause',
  usage: '[options]',
  about:
    'Gives this machine back to the person at it: your workers here start nothing more, and what they run checkpoints and ' +
    'goes back to the queue, or is frozen where it is.',
  statuses: `    0  paused\n${NO_WORKER}`,
  examples: ['capture worker pause --for 2h', 'capture worker pause --how stop'],
  options: Object.values(PAUSE),
  variables: [],
  takesTask: false,
  read: (line) => {
    refuseOperands(line);
    const { values } = line;
    const forMs = values.of(PAUSE.for);
    const how = values.of(PAUSE.how);
    return async ({ log, env }) => {
      const message = { act: 'pause', how: how === 'stop' ? 'stop' : 'checkpoint', forMs } as const;
      const told = await tellWorkers(message, env);
      if (told.length === 0) throw noWorker();
      const until = forMs === undefined ? 'until capture worker resume' : `for ${formatMs(forMs)}`;
      log.info(`${plural(told.length, 'worker')} paused ${until}`);
      return EXIT.ok;
    };
  },
};

export const resumeCommand: QueueCommand = {
  title: 'capture worker resume',
  usage: '',
  about: 'Ends the pause of your workers on this machine before its time.',
  statuses: `    0  they go on\n${NO_WORKER}`,
  examples: ['capture worker resume'],
  options: [],
  variables: [],
  takesTask: false,
  read: (line) => {
    refuseOperands(line);
    return async ({ log, env }) => {
      const told = await tellWorkers({ act: 'resume' }, env);
      if (told.length === 0) throw noWorker();
      log.info(`${plural(told.length, 'worker')} resumed`);
      return EXIT.ok;
    };
  },
};

function noWorker(): CaptureError {
  return new CaptureError(1, 'no worker of this user runs on this machine', {
    hint: 'capture worker --queue redis://host:6379/name starts one',
  });
}
