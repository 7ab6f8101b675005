// When a runner stops because tasks fail: the syntax of `--halt`, which is GNU parallel's. Pure.

/** `never`, or after this many failed indices. */
export type Halt =
  | { readonly kind: 'never' }
  | {
      /** `soon`: start no more tasks, and let running ones end. `now`: stop running tasks, too. */
      readonly kind: 'soon' | 'now';
      readonly fail:
        | { readonly kind: 'count'; readonly count: number }
        /** Percent of all indices, rounded up. */
        | { readonly kind: 'percent'; readonly percent: number };
    };

/** `no`: continue. `soon`: start no more tasks. `now`: stop running tasks, too. */
export type Halting = 'no' | 'soon' | 'now';

/** Parses `never`, `soon,fail=3`, `now,fail=10%`, or `now` alone (`now,fail=1`); undefined for any other text. */
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

/** What to do once `failed` of `all` indices have failed, each after its last retry. */
export function haltingOf(halt: Halt, failed: number, all: number): Halting {
  if (halt.kind === 'never') return 'no';
  const { fail } = halt;
  const limit = fail.kind === 'count' ? fail.count : Math.max(1, Math.ceil((all * fail.percent) / 100));
  return failed >= limit ? halt.kind : 'no';
}
