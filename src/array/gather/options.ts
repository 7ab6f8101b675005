// The options of `capture gather`, and what they ask for.
import path from 'node:path';
import { choice, count, filePath, type Reader } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { IndexSet } from '../../model/index-set.ts';
import { showPath } from '../../model/path.ts';
import { ARRAY_OPTION } from '../array-option.ts';
import { type Line, refuseOperands } from '../command.ts';
import { type GivenPlace, readPlace } from '../place.ts';
import { layout } from './layout.ts';
import { LIST_FORMATS, type ListFormat } from './list.ts';
import type { Choice } from './share.ts';
import { Patterns } from './patterns.ts';

const pattern: Reader<string> = (text) =>
  text === '' || text.startsWith('/')
    ? { is: 'not a pattern below a work directory', example: "'out/*.dat'" }
    : { value: text };

export const OPTIONS = group('Gather:', {
  array: { ...ARRAY_OPTION, help: 'only these indices, and all of them' },
  include: {
    flags: '--include <pattern>',
    kind: 'list',
    help: 'only results of these paths in the work directory of the task',
    read: pattern,
  },
  exclude: { flags: '--exclude <pattern>', kind: 'list', help: 'no results of these paths', read: pattern },
  layout: {
    flags: '--layout <name>',
    kind: 'value',
    help: 'the name of each result: {index}, {path}, {name} (the path without directories) and {task}',
    read: layout,
    default: '{index}/{path}',
  },
  incomplete: {
    flags: '--incomplete',
    kind: 'flag',
    help: 'gather what is stored so far, although not all indices are done',
  },
  'with-partials': {
    flags: '--with-partials',
    kind: 'flag',
    help: 'staged results, which a death may have closed, too, as <name>.partial-<attempt>',
  },
  checksum: {
    flags: '--checksum',
    kind: 'flag',
    help: 'read what is there already, instead of believing its size and mtime',
  },
  parallel: {
    flags: '--parallel <n>',
    kind: 'value',
    help: 'files downloaded at once',
    read: count(1, 256),
    default: '16',
  },
  list: {
    flags: '--list <format>',
    kind: 'value',
    help: 'download nothing; print names, sizes and md5 as json, or as md5sum has them',
    read: choice(...LIST_FORMATS),
  },
  'dry-run': { flags: '--dry-run', kind: 'flag', help: 'say what would be downloaded, and download nothing' },
});

/** What was asked for. */
export interface Asked extends Choice {
  /** Undefined with --list. */
  readonly directory: string | undefined;
  readonly set: IndexSet | undefined;
  readonly incomplete: boolean;
  readonly checksum: boolean;
  readonly parallel: number;
  readonly list: ListFormat | undefined;
  readonly dryRun: boolean;
}

export function readGather(line: Line): { readonly place: GivenPlace | undefined; readonly asked: Asked } {
  const { values, operands, title, cwd, refuse } = line;
  const place = readPlace(line);
  const [directory, ...rest] = operands;
  refuseOperands(line, rest);
  const list = values.of(OPTIONS.list);
  if (directory === undefined && list === undefined && place !== undefined)
    refuse('no directory is named to gather into', `${title} ${place.settings.url} ./results`);
  if (directory !== undefined && 'is' in filePath(directory))
    refuse(`'${showPath(directory)}' is no directory to gather into`, `${title} <url> ./results`);
  const asked: Asked = {
    directory: directory === undefined ? undefined : path.resolve(cwd, directory),
    set: values.of(OPTIONS.array),
    patterns: new Patterns(values.each(OPTIONS.include), values.each(OPTIONS.exclude)),
    layout: values.of(OPTIONS.layout),
    incomplete: values.has(OPTIONS.incomplete),
    withPartials: values.has(OPTIONS['with-partials']),
    checksum: values.has(OPTIONS.checksum),
    parallel: values.of(OPTIONS.parallel),
    list,
    dryRun: values.has(OPTIONS['dry-run']),
  };
  return { place, asked };
}
