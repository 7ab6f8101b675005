// The options that say whether what the task itself writes to stdout and stderr is stored, and how much of it.
import type { Mistake } from '../../model/errors.ts';
import { formatBytes } from '../../model/units.ts';
import { type Reader, sizeBytes } from './readers.ts';
import { group, RUN } from './spec.ts';
import type { Values } from './values.ts';

/** Less would not hold two segments of what grows (sidecar/output/follower.ts). */
const LEAST_BYTES = 2 ** 20;

const limit: Reader<number> = (text) => {
  const found = sizeBytes(text);
  if (!('value' in found) || found.value >= LEAST_BYTES) return found;
  return { is: `too little: at least ${formatBytes(LEAST_BYTES)}`, example: '16MiB' };
};

export const OUTPUT = group('Messages:', {
  'log-output': {
    flags: '--log-output',
    kind: 'flag',
    help: "store the task's stdout and stderr while it runs, where they go to files, for capture logs",
    on: RUN,
  },
  'log-output-limit': {
    flags: '--log-output-limit <size>',
    kind: 'value',
    help: 'so much of each is kept: the beginning, and the newest',
    on: RUN,
    read: limit,
    default: '64MiB',
  },
});

/** Undefined: nothing is stored. */
export function outputLimitOf(values: Values): number | undefined {
  const limitBytes = values.of(OUTPUT['log-output-limit']);
  return values.has(OUTPUT['log-output']) ? limitBytes : undefined;
}

export function outputContradictions(values: Values): readonly Mistake[] {
  const given = values.given(OUTPUT['log-output-limit']);
  if (given === undefined || values.has(OUTPUT['log-output'])) return [];
  return [
    {
      message: `${given.source}: no output is stored`,
      hint: `add --log-output, or leave out ${given.source}`,
    },
  ];
}
