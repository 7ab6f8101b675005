// What each command does, once the command line is understood. Modules are loaded on first use: thousands of
// array tasks start at once, and --help needs none of them.
import { fileURLToPath } from 'node:url';
import type { ExitStatus } from '../core/exit-status.ts';
import type { Parsed } from './parse.ts';
import type { SayLevel } from './say.ts';

/** What was asked for, when it is neither help nor a mistake. */
export type Asked = Extract<Parsed, { readonly kind: 'run' | 'watch' | 'restore' }>;

export type Say = (line: string, level: SayLevel, hint?: string) => void;

/** Does it, and resolves to the exit status. */
export async function carryOut(asked: Asked, say: Say): Promise<ExitStatus> {
  switch (asked.kind) {
    case 'run':
      return run(asked, say);
    default:
      throw new Error(`capture ${asked.kind} is not wired`);
  }
}

async function run(
  { settings, task }: Extract<Asked, { readonly kind: 'run' }>,
  say: Say,
): Promise<ExitStatus> {
  const [{ launch }, { readInherited }] = await Promise.all([
    import('../launch/launch.ts'),
    import('../launch/inherited.ts'),
  ]);
  return launch({
    settings,
    task,
    // Beside this module in the bundle (build.mjs).
    sidecarEntry: fileURLToPath(new URL('./sidecar.mjs', import.meta.url)),
    say,
    ignoredSignals: readInherited(process.env).ignoredSignals,
  });
}
