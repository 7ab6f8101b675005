import fc from 'fast-check';
import { expect, it } from 'vitest';
import { growingSet, type GrowingSet } from '../../src/model/growing-set.ts';

it('is in each of its states what a set would be that was copied, whichever of them grows', () => {
  const steps = fc.array(fc.tuple(fc.nat(20), fc.nat(9)), { maxLength: 30 });
  fc.assert(
    fc.property(steps, (all) => {
      const states: { readonly grown: GrowingSet<number>; readonly copied: ReadonlySet<number> }[] = [
        { grown: growingSet([7, 7, 8]), copied: new Set([7, 8]) },
      ];
      for (const [from, value] of all) {
        const { grown, copied } = states[from % states.length] ?? { grown: growingSet(), copied: new Set() };
        states.push({ grown: grown.with(value), copied: new Set(copied).add(value) });
      }
      for (const { grown, copied } of states) {
        expect([...grown]).toEqual([...copied]);
        expect(grown.size).toBe(copied.size);
        for (let value = 0; value < 10; value += 1) expect(grown.has(value)).toBe(copied.has(value));
      }
    }),
  );
});
