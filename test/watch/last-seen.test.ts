// What was last seen of each file: only what is new is told again.
import { describe, expect, it } from 'vitest';
import { openLastSeen } from '../../src/watch/last-seen.ts';

describe('last seen', () => {
  const facts = { dev: '1', ino: '2', size: 3, mtimeNs: '4', ctimeNs: '5' };

  it.each(['dev', 'ino', 'size', 'mtimeNs', 'ctimeNs'])(
    'knows a file as new when its %s differs',
    (field) => {
      const seen = openLastSeen();
      seen.note('r.dat', facts);
      expect(seen.isNew('r.dat', facts)).toBe(false);
      expect(seen.isNew('r.dat', { ...facts, [field]: field === 'size' ? 9 : '9' })).toBe(true);
    },
  );

  it('forgets a file that a whole walk has not met', () => {
    const seen = openLastSeen();
    seen.note('r.dat', facts);
    seen.forgetGone();
    expect(seen.isNew('r.dat', facts)).toBe(false);
    seen.forgetGone();
    seen.forgetGone();
    expect(seen.isNew('r.dat', facts)).toBe(true);
  });
});
