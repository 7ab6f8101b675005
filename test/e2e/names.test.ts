// File names are bytes, and every name that a file system allows is stored and restored exactly.
import { Buffer } from 'node:buffer';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const names: readonly Buffer[] = [
  'with space',
  'line\nbreak',
  `quote"and'`,
  '100%',
  '%41',
  '#hash',
  '-dash',
  '--keep',
  'ends.zst',
  'ends.7',
  'ends.0.zst',
  'é-utf8-😀',
  'x'.repeat(255),
  'é'.repeat(127),
  '.hidden',
  '~1~',
  'tab\there',
  'back\\slash',
  'a.0.partial-1',
].map((name) => Buffer.from(name));
const all = [...names, Buffer.from([0x62, 0xff, 0xfe, 0x2e, 0xe9])];

it('every name is stored as a checkpoint and comes back with its bytes', async () => {
  const source = `${place.dir}/source`;
  fs.mkdirSync(source);
  for (const [n, name] of all.entries())
    fs.writeFileSync(Buffer.concat([Buffer.from(`${source}/`), name]), `content ${n}`);
  const first = place.run(['-k', 'set/'], ['cp', '-r', source, 'set']);
  expect(await first.status, first.stderr()).toBe(0);
  place.freshWork();
  const second = place.run(['-k', 'set/', '--task-name', 'cp'], ['true']);
  expect(await second.status, second.stderr()).toBe(0);
  for (const [n, name] of all.entries()) {
    const file = Buffer.concat([Buffer.from(`${place.at('set')}/`), name]);
    expect(fs.readFileSync(file, 'utf8'), name.toString('latin1')).toBe(`content ${n}`);
  }
});

it('every name is stored as a result under a key of its own', async () => {
  const source = `${place.dir}/source`;
  fs.mkdirSync(source);
  for (const [n, name] of all.entries())
    fs.writeFileSync(Buffer.concat([Buffer.from(`${source}/`), name]), `content ${n}`);
  const run = place.run(['-r', 'set/**'], ['cp', '-r', source, 'set']);
  expect(await run.status, run.stderr()).toBe(0);
  expect(place.keys()).toHaveLength(all.length);
  expect(
    place
      .keys()
      .map((key) => place.text(key))
      .toSorted(),
  ).toEqual(all.map((_, n) => `content ${n}`).toSorted());
  const recorded = place.records().at(-1)?.record.results ?? [];
  expect(new Set(recorded.map(({ path }) => path)).size).toBe(all.length);
});

it('bytes that are no UTF-8 reach the options and the task, by arguments and by variables', async () => {
  const script = `k=$(printf 'k\\377'); r=$(printf 'r\\376'); export CAPTURE_RESULTS="$r" SEEN="$(printf 'v\\351\\\\n')"
    exec "$0" --to "$1" --task-name t -k "$k" -- \
      sh -c 'printf x > "$1"; printf "%s|" "$3" "$4" "$5" "$SEEN" > "$2"' zero "$k" "$r" "$(printf 'l\\377\\nend\\n.')" '' 'é\\0101'`;
  const task = place.exec(['sh', '-c', script, BIN, place.store]);
  expect(await task.status, task.stderr()).toBe(0);
  expect(place.keys().toSorted()).toEqual(['k%FF.t.0.1-1', 'r%FE.0']);
  expect(place.stored('r%FE.0').toString('latin1')).toBe('l\xFF\nend\n.||\xC3\xA9\\0101|v\xE9\\n|');
});
