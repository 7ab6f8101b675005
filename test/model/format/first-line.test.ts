import { describe, expect, it } from 'vitest';
import { firstLine } from '../../../src/model/format/first-line.ts';
import { messageLines } from '../../../src/model/format/message-line.ts';
import { parsed } from '../../cli/given.ts';

describe('the first line', () => {
  it('says of a store that was not there that it is new', () => {
    const { settings } = parsed(['-r', 'r', '--to', '/s', '--', './t']);
    expect(firstLine(settings, 1, 'a new directory')).toContain(
      '-> file:///s (a new directory); results: r; ',
    );
  });

  it('says who this is, where everything goes and what is captured', () => {
    const { settings } = parsed([
      '-r',
      'r.dat',
      '-k',
      'k.chk',
      '-i',
      'in',
      '--to',
      's3://lab/lj',
      '--index',
      '3',
      '--',
      'lmp',
    ]);
    expect(firstLine(settings, 2)).toBe(
      'task lmp, index 3, attempt 2 -> s3://lab/lj; results: r.dat; checkpoints: k.chk; inputs: in; in /; reclaim: auto',
    );
  });

  it('shortens what a manifest file declares', () => {
    const many = Array.from({ length: 1000 }, (_, at) => ['-r', `r${at}`]).flat();
    const { settings } = parsed([...many, '--to', '/s', '--run', '77', '--', './t']);
    expect(firstLine(settings, undefined)).toBe(
      'task t, run 77 -> file:///s; results: r0, r1, r2, r3, r4 and 995 more; in /; reclaim: auto',
    );
  });

  it('says so when nothing is declared', () => {
    expect(firstLine(parsed(['--', './t']).settings, 1)).toContain('; nothing declared; ');
  });
});

describe('a message', () => {
  it.each([
    ['info', undefined, '2026-11-21T22:00:00.000Z capture: stored\n'],
    ['warn', 'wait', '2026-11-21T22:00:00.000Z capture: warning: stored\n  try: wait\n'],
    ['error', 'wait', '2026-11-21T22:00:00.000Z capture: stored\n  try: wait\n'],
    ['debug', undefined, '2026-11-21T22:00:00.000Z capture: debug: stored\n'],
  ] as const)('of level %s stands on its lines, with the time', (level, hint, lines) => {
    expect(messageLines(level, 'stored', hint, new Date('2026-11-21T22:00:00Z'))).toBe(lines);
  });

  it('has no time on a terminal, and erases what is left of a progress line below it', () => {
    expect(messageLines('info', 'stored', 'wait', undefined)).toBe(
      'capture: stored\u001b[K\n  try: wait\u001b[K\n',
    );
  });

  it('stays on its line, whatever the names in it', () => {
    expect(messageLines('info', 'a\ncapture: forged', 'b\r\u001b[2J', new Date(0))).toBe(
      '1970-01-01T00:00:00.000Z capture: a\\x0acapture: forged\n  try: b\\x0d\\x1b[2J\n',
    );
  });
});
