// Values with a path each, in their order, as rows outside the JavaScript heap: for lists that are kept until they
// have been read once more.
import type { RelPath } from '../path.ts';
import type { RowCodec } from './packed-map.ts';
import type { Paths } from './paths.ts';

/** The same values in the same order, as often as it is iterated. */
export function rowList<V extends { readonly path: RelPath }>(
  values: readonly V[],
  codec: RowCodec<V>,
  paths: Paths,
): Iterable<V> {
  const rows = Buffer.allocUnsafeSlow(values.length * codec.bytes);
  const ids = Uint32Array.from(values, ({ path }) => paths.idOf(path));
  const asTheyAre = new Map<number, V>();
  for (const [at, value] of values.entries())
    if (!codec.write(value, rows, at * codec.bytes, value.path)) asTheyAre.set(at, value);
  return {
    *[Symbol.iterator]() {
      for (const [at, id] of ids.entries())
        yield asTheyAre.get(at) ?? codec.read(rows, at * codec.bytes, paths.pathOf(id));
    },
  };
}
