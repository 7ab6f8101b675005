// The options that name files, each in its role.
import type { ManifestPatterns } from '../../model/file/manifest.ts';
import { patternsOf } from './patterns.ts';
import { ALL, group, type Option } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

export const FILES = group(
  'Files (exact path, glob or directory, relative to the work directory; repeatable):',
  {
    results: {
      flags: '-r, --results <pattern>',
      kind: 'list',
      help: 'final files: stored when they are closed',
      on: ALL,
    },
    checkpoints: {
      flags: '-k, --checkpoints <pattern>',
      kind: 'list',
      help: 'files to resume from: stored together, as one moment',
      on: ALL,
    },
    inputs: {
      flags: '-i, --inputs <pattern>',
      kind: 'list',
      help: 'files that the task reads, or keeps using: fetched before it starts',
      on: ALL,
    },
    companions: {
      flags: '--companions <pattern>',
      kind: 'list',
      help: 'append-only files that the task keeps open and needs to resume: stored as they grow',
      on: ALL,
    },
    exclude: {
      flags: '--exclude <pattern>',
      kind: 'list',
      help: 'never read and never touched, whatever else matches',
      on: ALL,
    },
  },
);

export function filesOf(values: Values, caller: RunCaller): Omit<ManifestPatterns, 'newest'> {
  const patterns = (option: Option): readonly string[] => patternsOf(values, option, caller);
  return {
    results: patterns(FILES.results),
    checkpoints: patterns(FILES.checkpoints),
    inputs: patterns(FILES.inputs),
    companions: patterns(FILES.companions),
    exclude: patterns(FILES.exclude),
  };
}
