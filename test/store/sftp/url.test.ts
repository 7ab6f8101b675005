// The form of `sftp://` URLs, and where they lead.
import { describe, expect, it } from 'vitest';
import { locationOf, sftpKind } from '../../../src/store/sftp/url.ts';

const parse = (text: string): unknown => sftpKind.parse({ text, source: '--to', shown: `--to '${text}'` });

describe('the URL of a server with SSH', () => {
  it.each([
    [
      'sftp://ada@files.lab.org/data/melt',
      { user: 'ada', host: 'files.lab.org', port: 22, directory: '/data/melt' },
    ],
    ['sftp://ada@files:2222/data', { user: 'ada', host: 'files', port: 2222, directory: '/data' }],
    [
      'sftp://ada@10.0.0.9/~/melt/run 7',
      { user: 'ada', host: '10.0.0.9', port: 22, directory: 'melt/run 7' },
    ],
    ['sftp://ada@files/~', { user: 'ada', host: 'files', port: 22, directory: '.' }],
    ['sftp://ada@[fe80::1]:2222/data', { user: 'ada', host: 'fe80::1', port: 2222, directory: '/data' }],
    ['sftp://ada@files/a%20b', { user: 'ada', host: 'files', port: 22, directory: '/a%20b' }],
  ])('%s leads to a directory', (text, location) => {
    expect(parse(text)).toBe(text);
    expect(locationOf(text)).toEqual(location);
  });

  it('has one form', () => {
    expect(parse('SFTP://ada@Files.Lab.Org:22/data/melt//')).toBe('sftp://ada@files.lab.org/data/melt');
  });

  it.each([
    ['sftp://files/data', /names no user/],
    ['sftp://@files/data', /names no user/],
    ['sftp://ada@/data', /names no host/],
    ['sftp://ada@files', /names no directory/],
    ['sftp://ada@files/', /names no directory/],
    ['sftp://ada@files:0/data', /0 is no port/],
    ['sftp://ada@files:99999/data', /99999 is no port/],
    ['sftp://ada@files/data/../etc', /an empty, '\.' or '\.\.' part/],
    ['sftp://ada@files/data//melt', /an empty, '\.' or '\.\.' part/],
    ['sftp://ada@files/da\nta', /a control character/],
  ])('%j is refused', (text, message) => {
    expect(parse(text)).toMatchObject({
      message: expect.stringMatching(message),
      hint: expect.stringMatching(/sftp:/),
    });
  });

  it.each(['sftp://ada:secret@files/data', 'sftp://ada:secret@word@files:22/data', 'sftp://ada:@secret@/'])(
    'never shows a password: %j',
    (text) => {
      const mistake = parse(text);
      expect(mistake).toMatchObject({ message: expect.stringMatching(/no password/) });
      expect(JSON.stringify(mistake)).not.toContain('secret');
    },
  );
});
