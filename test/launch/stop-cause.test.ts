// Who sent SIGTERM, as far as the launcher knows.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { senderOfTerm } from '../../src/launch/stop-cause.ts';

const UNKNOWN = { why: 'SIGTERM', reason: 'SIGTERM, sender unknown' };

test('is not known without a runner', () => {
  expect(senderOfTerm({})).toEqual(UNKNOWN);
});

test('is the cause that the runner has left', () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-cause-'));
  const cause = { why: 'paused', reason: 'the worker was paused' };
  const env = { CAPTURED_RUNNER: String(process.ppid), CAPTURED_TASK_LOG: path.join(dir, '3.log') };
  expect(senderOfTerm(env)).toEqual(UNKNOWN);
  fs.writeFileSync(path.join(dir, '3.log.stop'), JSON.stringify(cause));
  expect(senderOfTerm(env)).toEqual(cause);
  fs.writeFileSync(path.join(dir, '3.log.stop'), '{}');
  expect(senderOfTerm(env)).toEqual(UNKNOWN);
  fs.rmSync(dir, { recursive: true });
});

test("is the runner's death", () => {
  expect(senderOfTerm({ CAPTURED_RUNNER: String(process.pid) }).why).toBe('runner killed');
});
