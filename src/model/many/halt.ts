// When does a runner stop because tasks fail? The words of `--halt`, which are GNU parallel's. Pure.

/** `never`, or at so many failed indices. */
export type Halt =
  | { readonly kind: 'never' }
  | {
      /** `soon`: start none more, and let those that run end. `now`: end those that run, too. */
      readonly kind: 'soon' | 'now';
      readonly fail:
        | { readonly kind: 'count'; readonly count: number }
        /** Of all indices, rounded up. */
        | { readonly kind: 'percent'; readonly percent: number };
    };

/** `no`: go on. `soon`: start none more. `now`: end those that run, too. */
export type Halting = 'no' | 'soon' | 'now';

/** What `never`, `soon,fail=3`, `now,fail=10%` or `now` alone, which is `now,fail=1`, mean; undefined for other words. */
export function parseHalt(text: string): Halt | undefined {
  if (text === 'never') return { kind: 'never' };
  const match = /^(soon|now)(?:,fail=(\d{1,9})(%?))?$/.exec(text);
  const [, kind, digits = '1', sign = ''] = match ?? [];
  const number = Number(digits);
  if ((kind !== 'soon' && kind !== 'now') || number === 0 || (sign === '%' && number > 100)) return undefined;
  const fail =
    sign === '%'
      ? ({ kind: 'percent', percent: number } as const)
      : ({ kind: 'count', count: number } as const);
  return { kind, fail };
}

/** How far to stop when `failed` of `all` indices have failed, each after its last retry. */
export function haltingOf(halt: Halt, failed: number, all: number): Halting {
  if (halt.kind === 'never') return 'no';
  const { fail } = halt;
  const limit = fail.kind === 'count' ? fail.count : Math.max(1, Math.ceil((all * fail.percent) / 100));
  return failed >= limit ? halt.kind : 'no';
}
