// The signature of each request, against what botocore has signed for the same: recorded, so that it needs no Python
// (botocore/requests.ts says how). test/real/botocore.test.ts asks a botocore that is there.
import fs from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { KEYS } from './botocore/keys.ts';
import { type Sent, sentByDriver, signedByBotocore } from './botocore/requests.ts';

const FILE = path.join(import.meta.dirname, 'botocore/signatures.json');

describe('botocore signs as the S3 store does', () => {
  let sent: readonly Sent[];
  let recorded: Readonly<Record<string, readonly string[]>>;
  beforeAll(async () => {
    sent = await sentByDriver();
    if (process.env['CAPTURE_RECORD'] === '1') {
      const signatures = signedByBotocore(sent);
      const lines = KEYS.map((key) => [key, signatures.filter((_, at) => keyOf(sent[at]) === key)]);
      fs.writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(lines), undefined, 2)}\n`);
    }
    recorded = JSON.parse(fs.readFileSync(FILE, 'utf8')) as typeof recorded;
  });

  it.each(KEYS)('all requests for the key %j', (key) => {
    const ofKey = sent.filter((one) => keyOf(one) === key);
    const operations = new Set(ofKey.map(({ operation }) => operation));
    expect(operations.size).toBe(12);
    const expected = recorded[key] ?? [];
    const wrong = ofKey.filter(({ signature }, at) => signature !== expected[at]);
    expect(wrong.map(({ method, url }) => `${method} ${url}`)).toEqual([]);
    expect(expected).toHaveLength(ofKey.length);
  });
});

function keyOf(sent: Sent | undefined): string {
  return String(sent?.params['Key'] ?? sent?.params['Prefix']).slice('run7/'.length);
}
