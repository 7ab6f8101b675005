// What is allowed, but probably not meant. Pure. Each warning is said once, and the run starts all the same.
import type { Settings } from '../model/format/settings.ts';
import type { Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import { storeDirectory } from '../store/url.ts';
import type { GivenOptions } from './command-line.ts';
import type { CommandName } from './options.ts';

export function warningsOf(
  settings: Settings,
  command: CommandName,
  given: GivenOptions,
): readonly Mistake[] {
  const { results, checkpoints, inputs, companions } = settings.manifest;
  const declared = results.length + checkpoints.length + inputs.length + companions.length;
  // A restore brings the stored checkpoint all the same: its record names the files.
  if (declared === 0 && command !== 'restore') {
    return [
      {
        message: 'nothing is declared: nothing is kept',
        hint: "--results 'out/*.dat' --checkpoints state.chk",
      },
    ];
  }
  if (!settings.perishableStore) return [];
  const dir = showPath(storeDirectory(settings.to.url) ?? settings.to.url);
  const why = given.has('to')
    ? `the store ${dir} stands in the work directory and goes with it`
    : `no --to is given: the store is ${dir}, which goes away with a spot instance`;
  return [
    {
      message: `${why}: nothing is reclaimed`,
      hint: '--to s3://bucket/prefix',
    },
  ];
}
