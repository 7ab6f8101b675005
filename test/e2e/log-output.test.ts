// The task's stdout and stderr in the store, while its own streams stay as they are (--log-output).
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import fs from 'node:fs';
import { TELL_ALL } from '../support/messages.ts';
import { BIN, killTree, openPlace, type Place, type Run, sidecarOf, until } from './support.ts';
import { outputKeys, outputOf, redirected } from './redirected.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['--log-output', '--companion-interval', '1s'];

const follow = (where: string, script: string, options: readonly string[] = []): Run =>
  redirected(place, where, script, [...OPTIONS, ...options]);
const keys = (): readonly string[] => outputKeys(place);
const stored = (stream: string): string => outputOf(place, stream).toString();
const at = (name: string): string => `${place.dir}/${name}`;
const text = (name: string): string => fs.readFileSync(at(name), 'utf8');

describe('output that goes to files', () => {
  it('is stored while the task runs, and outlives the machine', async () => {
    const script = 'echo one; echo two >&2; until [ -e go ]; do sleep 0.05; done; echo three';
    const run = follow(`>${at('out')} 2>${at('err')}`, script);
    await until(() => stored('stdout') === 'one\n' && stored('stderr').includes('two\n'), 'the first lines');
    killTree(run.pid);
    await run.status;
    expect(stored('stdout')).toBe('one\n');
  });

  it('is stored whole when the task ends, from where the file stood before', async () => {
    fs.writeFileSync(at('out'), 'of the batch script\n');
    const run = follow(`>>${at('out')} 2>>${at('out')}`, 'seq 1 1000; echo done >&2');
    expect(await run.status).toBe(0);
    expect(keys()).toEqual(['0001.output.000000000000.zst']);
    const lines = stored('output').split('\n');
    expect(lines.filter((line) => /^\d+$/.test(line))).toEqual(
      Array.from({ length: 1000 }, (_, n) => String(n + 1)),
    );
    expect(lines).toContain('done');
    expect(stored('output')).not.toContain('batch script');
    // The task's own is as it would be without.
    expect(text('out')).toMatch(/^of the batch script\n/);
  });

  it('of a task that fails is stored, too', async () => {
    const run = follow(`>${at('out')} 2>&1`, 'echo why; exit 3');
    expect(await run.status).toBe(3);
    expect(stored('output')).toContain('why\n');
  });

  it('goes on after the sidecar was killed', async () => {
    const script = 'echo one; until [ -e go ]; do sleep 0.05; done; echo two';
    const run = follow(`>${at('out')} 2>${at('err')}`, script);
    await until(() => stored('stdout') === 'one\n', 'the first line');
    const before = sidecarOf(run.pid);
    process.kill(before ?? -1, 'SIGKILL');
    await until(() => ![undefined, before].includes(sidecarOf(run.pid)), 'another sidecar');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status).toBe(0);
    expect(stored('stdout')).toBe('one\ntwo\n');
    expect(keys().filter((key) => key.includes('stdout'))).toHaveLength(1);
  });

  it('is stored from its beginning on, though the sidecar was killed before it had stored any of it', async () => {
    fs.writeFileSync(at('out'), 'of the batch script\n');
    const script = 'echo one; echo two >&2; touch said; until [ -e go ]; do sleep 0.05; done; echo three';
    const options = ['--companion-interval', '1h'];
    const run = follow(`>>${at('out')} 2>${at('err')}`, script, options);
    await until(() => fs.existsSync(place.at('said')), 'the task');
    const before = sidecarOf(run.pid);
    process.kill(before ?? -1, 'SIGKILL');
    await until(() => text('err').includes('the sidecar was restarted'), 'another sidecar');
    await until(() => stored('stdout') === 'one\n', 'what its predecessor had not stored');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status).toBe(0);
    expect(stored('stdout')).toBe('one\nthree\n');
    expect(stored('stderr')).toMatch(/^two$/m);
  });

  it('of another attempt stands beside it', async () => {
    await follow(`>${at('out')} 2>${at('err')}`, 'echo one; exit 1').status;
    await follow(`>${at('out')} 2>${at('err')}`, 'echo two').status;
    expect(keys().filter((key) => key.includes('stdout'))).toEqual([
      '0001.stdout.000000000000.zst',
      '0002.stdout.000000000000.zst',
    ]);
  });
});

describe('output that goes elsewhere', () => {
  it('reaches its reader as ever, is not stored, and a warning says what to do', async () => {
    const run = place.run(['--task-name', 't', ...OPTIONS, ...TELL_ALL], ['sh', '-c', 'echo hello']);
    expect(await run.status).toBe(0);
    expect(run.stdout()).toBe('hello\n');
    expect(run.stderr()).toMatch(
      /--log-output: stdout is a (pipe|socket), stderr is a (pipe|socket): only its reader can read/,
    );
    expect(run.stderr()).toContain('capture ... >task.log 2>&1');
    expect(keys()).toEqual([]);
  });

  it('of a terminal stays on it, and the task still sees one', async () => {
    const line = `${BIN} --to ${place.store} --task-name t ${OPTIONS.join(' ')} -- sh -c 'test -t 1 && test -t 2 && echo tty'`;
    // script(1) gives it a terminal of its own.
    const run = place.exec(['script', '-qec', line, '/dev/null']);
    expect(await run.status).toBe(0);
    expect(run.stdout()).toMatch(/^tty\r$/m);
    expect(run.stdout()).toContain('stdout is a terminal or a device, stderr is a terminal or a device');
    expect(keys()).toEqual([]);
  });

  it('is stored as far as it goes to a file', async () => {
    const run = follow(`2>${at('err')}`, 'echo hello; echo oops >&2');
    expect(await run.status).toBe(0);
    expect(run.stdout()).toBe('hello\n');
    expect(text('err')).toMatch(/stdout is a (pipe|socket)/);
    expect(stored('stderr')).toContain('oops\n');
    expect(stored('stdout')).toBe('');
  });
});

const plain = (where: string, script: string, options: readonly string[] = []): Run =>
  redirected(place, where, script, options);

describe('without --log-output', () => {
  it('nothing of a task that ends well is stored', async () => {
    expect(await plain(`>${at('out')} 2>&1`, 'echo x').status).toBe(0);
    expect(keys()).toEqual([]);
  });

  it('the end of what a failed attempt wrote is stored, and nothing of what stood in its files before', async () => {
    fs.writeFileSync(at('out'), 'of an earlier attempt\n');
    fs.writeFileSync(at('err'), 'of an earlier attempt\n');
    const run = plain(`>>${at('out')} 2>>${at('err')}`, 'seq 1 30000; echo lost atoms >&2; exit 3');
    expect(await run.status).toBe(3);
    const numbers = `${Array.from({ length: 30_000 }, (_, n) => n + 1).join('\n')}\n`;
    expect(stored('stdout')).toBe(numbers.slice(-(64 * 1024)));
    expect(stored('stderr')).toContain('lost atoms\n');
    expect(stored('stderr')).not.toContain('earlier attempt');
    expect(text('out')).toBe(`of an earlier attempt\n${numbers}`);
  });

  it('is said by logs to be the end, and by status to be the last lines', async () => {
    const script = 'seq 1 30000; printf "lost \\033[31matoms\\n"; exit 3';
    expect(await plain(`>${at('out')} 2>&1`, script).status).toBe(3);
    const logs = place.capture(['logs', place.store, '0']);
    expect(await logs.status).toBe(0);
    expect(logs.stdout()).toContain('\n30000\nlost \u001B[31matoms\n');
    expect(logs.stderr()).toMatch(/the first 1\d\d\.\d KiB are not stored: only --log-output stores more/);
    const status = place.capture(['status', place.store, '0']);
    expect(await status.status).toBe(1);
    const [, shown = ''] = status.stdout().split('last lines of stdout and stderr:\n');
    expect(shown).toContain('  30000\n  lost \\x1b[31matoms\n');
    expect(shown.split('\n\n')[0]?.trimEnd().split('\n')).toHaveLength(20);
  });

  it('the end of what a task wrote is stored that was ended by a signal', async () => {
    const run = plain(`>${at('out')} 2>${at('err')}`, 'echo last words; kill -SEGV $$');
    await run.status;
    expect(stored('stdout')).toBe('last words\n');
  });

  it('nothing is read that is no file', async () => {
    const run = place.run(['--task-name', 't'], ['sh', '-c', 'echo x; exit 3']);
    expect(await run.status).toBe(3);
    expect(run.stderr()).not.toContain('not stored');
    expect(keys()).toEqual([]);
  });

  it('nothing is stored with --no-last-lines', async () => {
    expect(await plain(`>${at('out')} 2>&1`, 'echo x; exit 3', ['--no-last-lines']).status).toBe(3);
    expect(keys()).toEqual([]);
  });

  it.each([
    ['where they went', '', 'exit 3', [], /^stdout is a (pipe|socket), stderr is a (pipe|socket)$/],
    [
      'that nothing was written',
      '>out 2>/dev/null',
      'exit 3',
      [],
      /^stderr is a .*device, nothing was written to stdout$/,
    ],
    ['that nobody wanted them', '>out 2>&1', 'echo x; exit 3', ['--no-last-lines'], /^--no-last-lines$/],
    [
      'that they could not be read, with --log-output',
      '',
      'exit 3',
      ['--log-output'],
      /^stdout is a (pipe|socket), /,
    ],
  ])('status says why there are no last lines: %s', async (_, where, script, options, why) => {
    expect(await plain(where, script, options).status).toBe(3);
    const status = place.capture(['status', place.store, '0']);
    expect(await status.status).toBe(1);
    const [, said] = /^no last lines of its output: (.*)$/m.exec(status.stdout()) ?? [];
    expect(said).toMatch(why);
    const json = place.capture(['status', place.store, '0', '--json']);
    expect(await json.status).toBe(1);
    expect(JSON.parse(json.stdout())).toMatchObject({ lastOutput: [], noOutput: said });
  });

  it('status says that a killed attempt had not stored them', async () => {
    const run = plain('>out 2>&1', 'touch begun; exec sleep 600');
    await until(() => fs.existsSync(place.at('begun')), 'the task');
    killTree(run.pid);
    await run.status;
    const shown = async (): Promise<string> => {
      const status = place.capture(['status', place.store, '0', '--stale-after', '1s']);
      await status.status;
      return status.stdout();
    };
    let said = await shown();
    // oxlint-disable-next-line no-await-in-loop -- its record is younger than that at first
    while (!said.includes('stale')) said = await shown();
    expect(said).toContain('no last lines of its output: they are stored when an attempt ends');
  });

  it('nothing of a preempted attempt is stored, as its time is for the checkpoint', async () => {
    const run = plain(`>${at('out')} 2>&1`, 'touch begun; exec sleep 600');
    await until(() => fs.existsSync(place.at('begun')), 'the task');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(75);
    expect(keys()).toEqual([]);
  });
});
