// Results whose closes nobody can judge stand beside their names when all is killed: the next attempt judges by records.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { killTree, openPlace, type Place, until } from './support.ts';

const RESULTS = 150;
const OPTIONS = ['--task-name', 't', '-r', 'r.*', '-k', 'k.chk', '--compression', 'none'];

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const keysOf = (kind: RegExp): readonly string[] => place.keys().filter((key) => kind.test(key));
const partial = (): readonly string[] => keysOf(/^r\.\d+\.0\.partial-1$/);

it('results that were staged when everything was killed, and that a checkpoint followed, are all known', async () => {
  // Where deaths leave no trace, nobody knows who has closed a file; a dying process renames none.
  const task = `$SIG{CHLD} = 'IGNORE';
    for (1 .. ${RESULTS}) { open(R, '>', "r.$_"); print R "$_\n"; close R }
    open(K, '>', 'k.new'); print K "1\n"; close K; rename('k.new', 'k.chk'); sleep 600`;
  const first = place.run(OPTIONS, ['perl', '-e', task]);
  await until(() => partial().length === RESULTS && keysOf(/^k\.chk/).length > 0, 'all are stored');
  await until(() => (place.records().at(-1)?.record.generations.length ?? 0) > 0, 'the checkpoint');
  killTree(first.pid);
  await first.status;
  place.freshWork();
  const next = place.run(OPTIONS, ['sh', '-c', 'test -e k.chk']);
  expect(await next.status, next.stderr()).toBe(0);
  for (let n = 1; n <= RESULTS; n += 1) expect(place.text(`r.${n}.0`)).toBe(`${n}\n`);
  expect(partial()).toEqual([]);
  expect(place.records().at(-1)?.record).toMatchObject({ kind: 'done', left: [] });
});
