// Errors are compared by what they hold, as each file of the program has its own copy of their classes.
import { expect, it } from 'vitest';
import { CaptureError } from '../../src/model/errors.ts';
import { EXIT } from '../../src/model/exit-status.ts';
import { NoBinaryError } from '../../src/native/binary.ts';
import { FencedError } from '../../src/records/claim.ts';
import { StoreError } from '../../src/store/contract/store.ts';

it.each([
  ['NoBinaryError', NoBinaryError, new NoBinaryError('koffi', 'none')],
  ['StoreError', StoreError, new StoreError('refused', 'no')],
  ['FencedError', FencedError, new FencedError('attempt 2')],
])('another error is no %s', (_, kind, one) => {
  expect(one instanceof kind).toBe(true);
  expect(one instanceof CaptureError).toBe(true);
  expect(new CaptureError(EXIT.usage, 'wrong') instanceof kind).toBe(false);
});
