// `capture ls` for people: an index's checkpoints in words, and one line for each object. Pure.
import { describeFiles, setWords } from '../../model/checkpoint/generation-words.ts';
import type { Segment, StoredFile } from '../../model/format/records.ts';
import { showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { tableLines } from '../columns.ts';
import { byPath } from '../natural-order.ts';
import { DAMAGED, stateText } from '../state.ts';
import type { Listed } from './listed.ts';

/** An empty line separates two indices. */
export function linesOf(listed: Listed, isFirst: boolean): readonly string[] {
  const { index, task, checkpoints, isDamaged } = listed;
  const damage = isDamaged ? DAMAGED : '';
  return [
    ...(isFirst ? [] : ['']),
    `index ${index} of ${task}: ${stateText(listed)}${damage}`,
    ...checkpoints.map(
      (one) => `checkpoint ${one.name}: ${setWords(one)} (${describeFiles(one)}), ${one.at}`,
    ),
    ...tableLines(COLUMNS, [...rowsOf(listed)], Infinity),
  ];
}

/** The key comes last, so that nothing cuts it. */
const COLUMNS = [
  { title: 'WHAT', align: 'left' },
  { title: 'SIZE', align: 'right' },
  { title: 'MD5', align: 'left' },
  { title: 'OBJECT', align: 'left' },
] as const;

function* rowsOf(listed: Listed): Generator<readonly string[]> {
  for (const { key, storedSize } of listed.records) yield ['record', formatBytes(storedSize), '', key];
  for (const file of listed.results) yield fileRow('result', file);
  for (const file of listed.otherResults) yield fileRow('result of another run', file);
  for (const file of listed.partials) yield fileRow('staged result', file);
  for (const { key, storedSize } of listed.older) yield ['older copy', formatBytes(storedSize), '', key];
  // Two sets share the objects of unchanged files. Each object is listed once, with the newest set.
  const told = new Set<string>();
  for (const { name, members, companions } of listed.checkpoints) {
    const objects: readonly [StoredFile | Segment, string][] = [
      ...byPath(members).map((member): [StoredFile, string] => [member, member.path]),
      ...byPath(companions).flatMap(({ path, segments }) =>
        segments.map((segment): [Segment, string] => [segment, path]),
      ),
    ];
    for (const [object, path] of objects) {
      if (told.has(object.key)) continue;
      told.add(object.key);
      yield fileRow(`checkpoint ${name}`, { ...object, path });
    }
  }
}

/** Shows the size of the file, because not all records know the size of the object. */
function fileRow(
  what: string,
  { path, size, md5, key, secret }: Pick<StoredFile, 'path' | 'size' | 'md5' | 'key' | 'secret'>,
): readonly string[] {
  const isPlain = key.startsWith(`${path}.`);
  const sum = secret === undefined ? md5 : 'sealed';
  return [what, formatBytes(size), sum, isPlain ? key : `${key} = ${showPath(path)}`];
}
