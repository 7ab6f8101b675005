// A sidecar that replaces one that died after the attempt's last record: everything that this record names is stored.
// Local files may be half reclaimed by now, so what is here no longer shows what the task left.
import { EXIT } from '../model/exit-status.ts';
import type { CaptureRecord } from '../model/format/records.ts';
import type { Sidecar } from './interface.ts';
import type { Begun } from './startup/start.ts';

/** Answers with what the record says, and changes nothing. */
export function afterTheEnd({ context, close }: Begun, { end, kind }: CaptureRecord): Sidecar {
  return {
    attempt: context.attempt,
    restored: '',
    endedAs: kind,
    runToken: context.runToken,
    socket: undefined,
    taskStarted: () => undefined,
    taskSignalled: () => undefined,
    noticed: () => undefined,
    advised: () => undefined,
    finish: async () => ({
      status: end?.status ?? EXIT.internal,
      last: {
        level: 'info',
        text: `the last record was written, then the sidecar died: local files may be left -> ${context.store.url}`,
        fields: { event: 'end', status: end?.status },
      },
    }),
    close,
  };
}
