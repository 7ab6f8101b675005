// A notice that comes by itself after a while, to rehearse a preemption on a machine that nobody takes away.
import { formatMs } from '../model/units.ts';
import { pause } from './metadata.ts';
import type { Source, SourceOptions } from './source.ts';

/**
 * `ms` after the start, at most what a timer of Node can count. The notice says no instant, so that `--grace` counts.
 */
export function afterSource({ tell, signal }: SourceOptions, ms: number): Source {
  const what = `rehearsal: a notice ${formatMs(ms)} after the start`;
  return {
    run: async () => {
      await pause(ms, signal);
      tell([{ source: 'after', kind: 'stop', atMs: undefined, what }]);
    },
  };
}
