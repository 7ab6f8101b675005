// The tag of an object comes back as it was, or is kept as it is.
import { expect, it } from 'vitest';
import { tagRow } from '../../../src/model/packed/fields.ts';
import { PackedMap } from '../../../src/model/packed/packed-map.ts';

it.each([
  'e30260020baeb0398ff07b37dd33ed16',
  '7b65bbe7-6e26-4034-a697-db08b98bf58b',
  'e30260020baeb0398ff07b37dd33ed16-3',
  'W/"weak"',
  '6933-6-1795414644920428099',
  '',
])('the tag %s', (tag) => {
  const map = new PackedMap(tagRow);
  map.set('r.dat', tag);
  expect(map.get('r.dat')).toBe(tag);
});
