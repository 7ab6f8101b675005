// A sidecar of a launcher's own that does not answer.
import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Heartbeat, type Pace } from '../../src/launch/heartbeat.ts';
import { linkToChild, type SidecarLink } from '../../src/launch/sidecar-link.ts';
import type { FromSidecar } from '../../src/model/format/messages.ts';

const NEVER_MS = 1e6;
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

const NEVER: Pace = { everyMs: NEVER_MS, lateMs: NEVER_MS, startingMs: NEVER_MS, slowStartMs: NEVER_MS };

interface Link {
  readonly made: SidecarLink;
  readonly heard: FromSidecar[];
  /** How often it was said that it starts slowly. */
  readonly slow: () => number;
}

/** A child that runs this program. */
function linkTo(program: string, pace: Partial<Pace>): Link & { readonly child: ChildProcess } {
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  children.push(child);
  const gone = once(child, 'exit').then(([, signal]) => String(signal));
  const heard: FromSidecar[] = [];
  let slow = 0;
  const events = { hear: (message: FromSidecar) => heard.push(message), slow: () => (slow += 1) };
  const made = linkToChild({ child, gone }, events, new Set(), { ...NEVER, ...pace });
  return { made, heard, slow: () => slow, child };
}

/** A child that runs this program, linked once it has said hello. */
async function link(program: string, pace: Partial<Pace>): Promise<Link> {
  const { child, ...linked } = linkTo(`${program}; process.send({ kind: 'hello', pid: 1 })`, pace);
  await once(child, 'message');
  return linked;
}

const STOPPED = `process.on('message', () => undefined); setTimeout(() => process.kill(process.pid, 'SIGSTOP'))`;

describe('a sidecar that hangs', () => {
  it('is killed after two questions without an answer', async () => {
    const { made, heard } = await link(STOPPED, { everyMs: 20 });
    expect(await made.gone).toEqual({ how: 'it hung, and was killed', wasThere: true });
    expect(heard).toEqual([{ kind: 'hello', pid: 1 }]);
  });

  it.each(['noticed', 'task-ended'])('is asked more often past the deadline of %s', async (kind) => {
    const { made } = await link(STOPPED, { lateMs: 20 });
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
    const { made, heard } = await link(answers, { everyMs: 500 });
    expect(await made.gone).toEqual({ how: 'null', wasThere: true });
    expect(heard).toEqual([{ kind: 'hello', pid: 1 }]);
  });

  /** As Node does at its start if it cannot start its threads. */
  const SILENT = 'setInterval(() => undefined, 1000)';

  it('before its first message is reported once, and killed after a longer time', async () => {
    const { made, heard, slow } = linkTo(SILENT, { everyMs: 1, slowStartMs: 1, startingMs: 100 });
    expect(await made.gone).toEqual({ how: 'it hung, and was killed', wasThere: true });
    expect(slow()).toBe(1);
    expect(heard).toEqual([]);
  });

  it('before its first message holds up no run that should have ended', async () => {
    const { made } = linkTo(SILENT, { lateMs: 20 });
    made.send({ kind: 'task-not-started', status: 75, reason: 'SIGTERM', preempted: true });
    made.send({ kind: 'noticed', deadlineMs: Date.now() - 1000 });
    expect(await made.gone).toMatchObject({ how: 'it hung, and was killed' });
  });

  it('is not reported as slow once it has said hello', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      let slow = 0;
      const heartbeat = new Heartbeat(new ChildProcess(), () => (slow += 1), { ...NEVER, slowStartMs: 10 });
      heartbeat.heard();
      vi.advanceTimersByTime(1000);
      expect(slow).toBe(0);
      heartbeat.close();
    } finally {
      vi.useRealTimers();
    }
  });
});
