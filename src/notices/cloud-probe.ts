// Does this machine's cloud answer when asked for notices? Asks its source as a run does, until it has one answer or
// gives up. For `capture doctor`.
import { CLOUDS, PACE } from './notices.ts';
import { type Cloud, likelyCloud } from './platform.ts';
import type { Pace } from './source.ts';

/** `silent`: no answer; why, and what helps. `slow`: no answer in time; Azure's first one may take two minutes. */
export type CloudProbe =
  | { readonly kind: 'no-cloud' }
  | { readonly kind: 'heard'; readonly cloud: Cloud }
  | { readonly kind: 'slow'; readonly cloud: Cloud }
  | {
      readonly kind: 'silent';
      readonly cloud: Cloud;
      readonly why: string;
      readonly hint: string | undefined;
    };

export interface ProbeOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly withinMs: number;
  readonly signal: AbortSignal;
  readonly pace?: Pace;
}

export async function probeCloud(options: ProbeOptions): Promise<CloudProbe> {
  const { env, withinMs, signal, pace = PACE } = options;
  const cloud = likelyCloud(env);
  if (cloud === undefined) return { kind: 'no-cloud' };
  const stop = new AbortController();
  const leave = (): void => stop.abort();
  signal.addEventListener('abort', leave, { once: true });
  const late = setTimeout(leave, withinMs);
  try {
    return await new Promise<CloudProbe>((resolve) => {
      const silent = (why: string, { hint }: { readonly hint?: string } = {}): void =>
        resolve({ kind: 'silent', cloud, why, hint });
      const source = new CLOUDS[cloud]({
        env,
        pace,
        log: { debug: () => undefined, info: silent, warn: silent },
        named: true,
        tell: () => resolve({ kind: 'heard', cloud }),
        garbage: silent,
        signal: stop.signal,
      });
      source.run().catch(() => resolve({ kind: 'slow', cloud }));
    });
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', leave);
    stop.abort();
  }
}
