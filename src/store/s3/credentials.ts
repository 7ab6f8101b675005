// The SDK's credential chain: profiles, SSO, roles, web identity, ECS, EC2. It is a separate file of the program
// (build.mjs), loaded by runs without keys in variables. Its requests use our proxy, certificates and limits; those of
// ECS and EC2 are bounded, and so is each call as a whole. All callers share one call, and each waits with its own
// signal. A call that nobody waits for is ended.
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { externalDataInterceptor, loadSharedConfigFiles } from '@smithy/core/config';
import { untilAborted } from '../../model/waiting.ts';
import { startTimer } from '../../native/clock.ts';
import { bounded, type Bounds, GIVEN_UP, serverOfCall } from './bounded.ts';
import { handlerOf, SILENT } from './handler.ts';
import { CALL_WITHIN_MS, execProgram } from './program.ts';
import { refuseSpecialFile } from './special-files.ts';
import type { Transport } from '../http/transport.ts';

/** The keys for signatures. */
export interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** When they expire, if their source says so. */
  readonly expiration?: Date | undefined;
}

/**
 * Returns the keys that are valid now. They are cached, and renewed once for all callers, five minutes before they
 * expire. A signal ends only the waiting of its caller.
 */
export type KeySource = (signal?: AbortSignal) => Promise<Keys>;

interface Call {
  readonly keys: Promise<Keys>;
  readonly stop: AbortController;
  waiting: number;
}

/** Caches the keys and renews them before they expire. Each new chain reads its files again. */
export function credentialChain(
  transport: Transport,
  region: string,
  bounds?: Bounds,
  limitMs = CALL_WITHIN_MS,
): KeySource {
  // Otherwise the SDK's warning about old Node versions would go to the task's terminal.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
  Object.assign(externalDataInterceptor.getTokenRecord(), { exec: execProgram });
  const clients = { region: async () => region, requestHandler: handlerOf(transport), logger: SILENT };
  const options = { ignoreCache: true, logger: SILENT, parentClientConfig: clients };
  let provide = defaultProvider(options);
  const ask = async (stop: AbortController): Promise<Keys> => {
    const { signal } = stop;
    const timer = startTimer(limitMs, () => stop.abort(givenUp(`no answer in ${limitMs / 1000} s`)));
    try {
      const act = async (): Promise<Keys> => {
        await refuseTokenFiles();
        const keys = await provide({ callerClientConfig: clients });
        // The SDK would use them for ever.
        if (Number.isNaN(keys.expiration?.getTime()))
          throw givenUp('their Expiration is no time', serverOfCall());
        return keys;
      };
      return await untilAborted(bounded(act, bounds, signal), signal);
    } catch (error) {
      // The old provider would wait for the request that was given up.
      provide = defaultProvider(options);
      throw error;
    } finally {
      timer.cancel();
    }
  };
  let asked: Call | undefined;
  const newCall = (): Call => {
    const stop = new AbortController();
    const call = { keys: ask(stop), stop, waiting: 0 };
    const forget = (): void => {
      if (asked === call) asked = undefined;
    };
    call.keys.then(forget, forget);
    stop.signal.addEventListener('abort', forget, { once: true });
    return call;
  };
  return async (signal) => {
    const call = (asked ??= newCall());
    call.waiting += 1;
    try {
      return await untilAborted(call.keys, signal);
    } finally {
      call.waiting -= 1;
      if (call.waiting === 0) call.stop.abort();
    }
  };
}

/** The SDK reads the token of a profile synchronously. */
async function refuseTokenFiles(): Promise<void> {
  const { configFile, credentialsFile } = await loadSharedConfigFiles({ ignoreCache: true });
  for (const profile of [...Object.values(configFile), ...Object.values(credentialsFile)])
    refuseSpecialFile('web_identity_token_file', profile['web_identity_token_file']);
}

function givenUp(why: string, source = 'their source'): Error {
  return Object.assign(new Error(`${source}: ${why}`), { name: GIVEN_UP });
}
