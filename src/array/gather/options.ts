// The options of `capture gather` and the request that they make.
import path from 'node:path';
import type { Line } from '../../cli/command.ts';
import { choice, count, filePath, type Reader } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { showPath } from '../../model/path.ts';
import { ARRAY_OPTION } from '../options.ts';
import type { ArrayAddress } from '../stored-array.ts';
import { layout } from './layout.ts';
import { LIST_FORMATS } from './list.ts';
import { Patterns } from './patterns.ts';

const pattern: Reader<string> = (text) =>
  text === '' || text.startsWith('/')
    ? { is: 'not a pattern below a work directory', example: "'out/*.dat'" }
    : { value: text };

export const GATHER_OPTIONS = group('Gather:', {
  set: { ...ARRAY_OPTION, help: 'only these indices, and all of them' },
  include: {
    flags: '--include <pattern>',
    kind: 'list',
    help: 'only results of these paths in the work directory of the task',
    read: pattern,
  },
  exclude: { flags: '--exclude <pattern>', kind: 'list', help: 'no results of these paths', read: pattern },
  layout: {
    flags: '--layout <name>',
    help: 'the name of each result: {index}, {path}, {name} (the path without directories) and {task}',
    read: layout,
    default: '{index}/{path}',
  },
  incomplete: {
    flags: '--incomplete',
    help: 'gather what is stored so far, although not all indices are done',
  },
  withPartials: {
    flags: '--with-partials',
    help: 'staged results, which a dying process may have closed, too, as <name>.partial-<attempt>',
  },
  checksum: {
    flags: '--checksum',
    help: 'read what is there already, instead of believing its size and mtime',
  },
  parallel: { flags: '--parallel <n>', help: 'files downloaded at once', read: count(1, 256), default: '16' },
  list: {
    flags: '--list <format>',
    help: 'download nothing; print names, sizes and md5 as json, or as md5sum has them',
    read: choice(...LIST_FORMATS),
  },
  dryRun: { flags: '--dry-run', help: 'say what would be downloaded, and download nothing' },
});

/** The parsed command line. */
export interface GatherRequest extends Omit<ValuesOf<typeof GATHER_OPTIONS>, 'include' | 'exclude'> {
  readonly patterns: Patterns;
  /** Undefined with --list. */
  readonly directory: string | undefined;
}

export function readGather(
  { include, exclude, ...options }: ValuesOf<typeof GATHER_OPTIONS>,
  { operands, title, cwd, values }: Line,
  address: ArrayAddress | undefined,
): GatherRequest {
  const { directory } = operands;
  if (directory === undefined && options.list === undefined && address !== undefined) {
    const url = showPath(address.settings.url);
    values.refuse('no directory is named to gather into', `${title} ${url} ./results`);
  }
  if (directory !== undefined && 'is' in filePath(directory))
    values.refuse(`'${showPath(directory)}' is no directory to gather into`, `${title} <url> ./results`);
  return {
    ...options,
    directory: directory === undefined ? undefined : path.resolve(cwd, directory),
    patterns: new Patterns(include, exclude),
  };
}
