// A launcher without a process: the test says what it uses and how it ends.
import type { Launcher, LauncherEnd } from '../../src/many/launcher.ts';
import type { Force } from '../../src/many/stop-escalation.ts';
import { newDeferred } from '../../src/model/waiting.ts';
import { clockMs } from '../../src/native/clock.ts';

const GIB = 2 ** 30;

export interface FakeLauncher extends Launcher {
  usedNow: number;
  /** How often its processes were looked at. */
  reads: number;
  readonly told: Force[];
  readonly signals: string[];
  finish(kind: LauncherEnd['kind'], status?: number): void;
}

export function fakeLauncher(): FakeLauncher {
  const ended = newDeferred<LauncherEnd>();
  const told: Force[] = [];
  const signals: string[] = [];
  let isNoticed = false;
  const launcher: FakeLauncher = {
    startedMs: clockMs(),
    ended: ended.promise,
    told,
    signals,
    usedNow: GIB,
    reads: 0,
    get isEnding() {
      return isNoticed || told.length > 0;
    },
    usedBytes: () => {
      launcher.reads += 1;
      return launcher.usedNow;
    },
    end: (force) => void told.push(force),
    noticed: () => {
      isNoticed = true;
    },
    signal: (signal) => void signals.push(signal),
    finish: (kind, status = kind === 'done' ? 0 : 1) =>
      ended.resolve({ kind, status, runtimeMs: 1, peakBytes: launcher.usedNow, outputBytes: 0 }),
  };
  return launcher;
}
