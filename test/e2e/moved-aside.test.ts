// A death may have cut results that were published already: they are moved to their partial keys. Whoever does that can be
// killed, too, between two of them and before a record says so.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { childrenOf, openPlace, type Place, sidecarOf, until } from './support.ts';

const RESULTS = 150;
const OPTIONS = ['--task-name', 't', '-r', 'r.*', '-k', 'k.chk', '--compression', 'none'];

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const keysOf = (kind: RegExp): readonly string[] => place.keys().filter((key) => kind.test(key));
const whole = (): readonly string[] => keysOf(/^r\.\d+\.0$/);
const partial = (): readonly string[] => keysOf(/^r\.\d+\.0\.partial-1$/);
const kill = (pid: number | undefined): void => void (pid !== undefined && process.kill(pid, 'SIGKILL'));

it('results of which some were moved aside when the sidecar was killed are all still known', async () => {
  const many = `n=0; while [ $n -lt ${RESULTS} ]; do n=$((n + 1)); echo $n > r.$n; done; echo 1 > k.chk`;
  const first = place.run(OPTIONS, ['sh', '-c', `${many}; exec sleep 600`]);
  await until(() => whole().length > 0, 'the first results');
  // Only a scan then tells of what was closed: nobody knows by whom.
  kill(sidecarOf(first.pid));
  await first.says('the sidecar was restarted');
  await until(() => whole().length === RESULTS && keysOf(/^k\.chk/).length > 0, 'all are stored');
  const sidecar = sidecarOf(first.pid);
  const task = childrenOf(first.pid).find((pid) => pid !== sidecar);
  kill(first.pid);
  kill(task);
  await until(() => partial().length > 1, 'one is moved aside');
  kill(sidecar);
  await first.status;
  expect(partial().length).toBeLessThan(RESULTS);
  place.freshWork();
  const next = place.run(OPTIONS, ['sh', '-c', 'test -e k.chk']);
  expect(await next.status, next.stderr()).toBe(0);
  for (let n = 1; n <= RESULTS; n += 1) {
    const key = [...whole(), ...partial()].find((one) => one.startsWith(`r.${n}.0`));
    expect(place.text(key ?? '')).toBe(`${n}\n`);
  }
  const last = place.records().at(-1)?.record;
  expect(last?.kind).toBe('done');
  const only = partial()
    .map((key) => key.replace('.0.partial-1', ''))
    .filter((name) => !whole().includes(`${name}.0`));
  expect(only).not.toEqual([]);
  expect(last?.left.map(({ path }) => path).toSorted()).toEqual(only.toSorted());
});
