// The SDK's credential chain: profiles, SSO, roles, web identity, ECS, EC2. It is a separate file of the program
// (build.mjs), loaded by runs without keys in variables. Its requests use our proxy, certificates and limits; those of
// ECS and EC2 are bounded.
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { bounded, type Bounds } from './bounded.ts';
import { handlerOf, SILENT } from './handler.ts';
import type { Transport } from './transport.ts';

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
 * expire.
 */
export type KeySource = () => Promise<Keys>;

/** Caches the keys and renews them before they expire. Each new chain reads its files again. */
export function credentialChain(transport: Transport, region: string, bounds?: Bounds): KeySource {
  // Otherwise the SDK's warning about old Node versions would go to the task's terminal.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
  const clients = { region: async () => region, requestHandler: handlerOf(transport), logger: SILENT };
  const options = { ignoreCache: true, logger: SILENT, parentClientConfig: clients };
  let provide = defaultProvider(options);
  const ask = async (): Promise<Keys> => {
    try {
      return await bounded(() => provide({ callerClientConfig: clients }), bounds);
    } catch (error) {
      // The old provider would wait for the request that was given up.
      provide = defaultProvider(options);
      throw error;
    }
  };
  let asked: Promise<Keys> | undefined;
  return () => (asked ??= ask().finally(() => (asked = undefined)));
}
