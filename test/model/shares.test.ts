import { expect, it } from 'vitest';
import { Shares } from '../../src/model/shares.ts';

it('one value serves all with its key, and is closed when the last has released it', async () => {
  const closed: string[] = [];
  let opened = 0;
  const shares = new Shares<string>((value) => void closed.push(value));
  const open = (): string => `value ${(opened += 1)}`;
  const [a, b] = [shares.take('key', open), shares.take('key', open)];
  expect([a.value, b.value, shares.take('other', open).value]).toEqual(['value 1', 'value 1', 'value 2']);
  await a.release();
  await a.release();
  expect(closed).toEqual([]);
  await b.release();
  expect(closed).toEqual(['value 1']);
  expect(shares.take('key', open).value).toBe('value 3');
});

it('whoever asks while the last one is being closed gets a new one', async () => {
  let opened = 0;
  let end: (() => void) | undefined;
  const shares = new Shares<number>(
    () =>
      new Promise((resolve) => {
        end = resolve;
      }),
  );
  const first = shares.take('key', () => (opened += 1));
  const closing = first.release();
  expect(shares.take('key', () => (opened += 1)).value).toBe(2);
  end?.();
  await closing;
});
