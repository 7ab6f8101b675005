// The SDK's chain of credentials: profiles, SSO, roles, web identity, ECS, EC2. A file of its own in the program
// (build.mjs), loaded by runs whose keys are not in variables. Its requests go our way: proxy, certificates, limits.
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { handlerOf, SILENT } from './handler.ts';
import type { Transport } from './transport.ts';

/** What a request is signed with. */
export interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** When they run out, if whoever gave them says so. */
  readonly expiration?: Date | undefined;
}

/** Gives the keys that are valid now: kept, and asked for anew, once for all, five minutes before they expire. */
export type KeySource = () => Promise<Keys>;

/** Keeps what it finds, and looks again before that expires; files are read anew by each new chain. */
export function credentialChain(transport: Transport, region: string): KeySource {
  // The SDK's warning about old Node versions would go there, too.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
  const clients = { region: async () => region, requestHandler: handlerOf(transport), logger: SILENT };
  const options = { ignoreCache: true, logger: SILENT, parentClientConfig: clients };
  const provide = defaultProvider(options);
  return () => provide({ callerClientConfig: clients });
}
