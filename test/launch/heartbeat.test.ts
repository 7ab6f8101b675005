// A sidecar of a launcher's own that does not answer.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import type { Pace } from '../../src/launch/heartbeat.ts';
import { linkToChild, type SidecarLink } from '../../src/launch/sidecar-link.ts';
import type { FromSidecar } from '../../src/model/format/messages.ts';

const NEVER_MS = 1e6;
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** A child that runs this program, linked once it has said hello. */
async function link(program: string, pace: Pace): Promise<{ made: SidecarLink; heard: FromSidecar[] }> {
  const child = spawn(process.execPath, ['-e', `${program}; process.send({ kind: 'hello', pid: 1 })`], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  children.push(child);
  const gone = once(child, 'exit').then(([, signal]) => String(signal));
  const heard: FromSidecar[] = [];
  const made = linkToChild({ child, gone }, (message) => heard.push(message), new Set(), pace);
  await once(child, 'message');
  return { made, heard };
}

const STOPPED = `process.on('message', () => undefined); setTimeout(() => process.kill(process.pid, 'SIGSTOP'))`;

describe('a sidecar that hangs', () => {
  it('is killed after two questions without an answer', async () => {
    const { made, heard } = await link(STOPPED, { everyMs: 20, lateMs: NEVER_MS });
    expect(await made.gone).toEqual({ how: 'it hung, and was killed', wasThere: true });
    expect(heard).toEqual([{ kind: 'hello', pid: 1 }]);
  });

  it.each(['noticed', 'task-ended'])('is asked more often past the deadline of %s', async (kind) => {
    const { made } = await link(STOPPED, { everyMs: NEVER_MS, lateMs: 20 });
    made.send({ kind, deadlineMs: Date.now() - 1000 } as Parameters<SidecarLink['send']>[0]);
    expect(await made.gone).toMatchObject({ how: 'it hung, and was killed' });
  });

  it('is none if it answers: it hears many questions', async () => {
    const answers = `let n = 0; process.on('message', ({ kind }) => {
      if (kind !== 'ask') return;
      process.send({ kind: 'alive' });
      n += 1;
      if (n === 5) process.exit(0);
    })`;
    const { made, heard } = await link(answers, { everyMs: 500, lateMs: NEVER_MS });
    expect(await made.gone).toEqual({ how: 'null', wasThere: true });
    expect(heard).toEqual([{ kind: 'hello', pid: 1 }]);
  });
});
