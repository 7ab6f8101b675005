// `az://account/container/prefix`: the form of the URL, and the rules for its names. Pure; loads nothing of Azure's SDK.
import type { Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import type { GivenUrl, StoreKind } from '../contract/store.ts';

/** Azure allows names of 1,024 characters. Ours take up to 900 bytes (model/format/keys.ts) after a slash. */
const PREFIX_LIMIT_BYTES = 123;
const FORM = 'az://account/container/prefix';
const PARTS = /^az:\/\/([^/]*)(?:\/([^/]*))?(?:\/(.*))?$/is;
/** Schemes that other programs have for the same. */
const OTHER_SCHEMES = new Set(['abfs', 'abfss', 'azure', 'wasb', 'wasbs']);

export const azureKind: StoreKind = {
  form: FORM,
  parse: parseContainer,
  directoryOf: () => undefined,
  insteadOf: (scheme) => (OTHER_SCHEMES.has(scheme) ? FORM : undefined),
};

function parseContainer({ text, source, shown }: GivenUrl): string | Mistake {
  const [, account = '', container = '', rest = ''] = PARTS.exec(text) ?? [];
  if (account === '') return { message: `${shown}: names no storage account`, hint: `${source} ${FORM}` };
  if (!/^[a-z0-9]{3,24}$/.test(account)) {
    return {
      message: `${shown}: '${showPath(account)}' cannot be the name of a storage account`,
      hint: 'the names of storage accounts have 3 to 24 of a-z and 0-9',
    };
  }
  if (container === '') return { message: `${shown}: names no container`, hint: `${source} ${FORM}` };
  if (!/^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/.test(container)) {
    return {
      message: `${shown}: '${showPath(container)}' cannot be the name of a container`,
      hint: 'the names of containers have 3 to 63 of a-z, 0-9 and single hyphens, and begin and end with a letter or digit',
    };
  }
  const prefix = rest.replaceAll(/^\/+|\/+$/g, '');
  const why = prefix === '' ? undefined : whyNoPrefix(prefix);
  if (why !== undefined)
    return { message: `${shown}: ${why}`, hint: `${source} az://${account}/${container}/project/run` };
  return prefix === '' ? `az://${account}/${container}` : `az://${account}/${container}/${prefix}`;
}

function whyNoPrefix(prefix: string): string | undefined {
  if (/\p{Cc}/u.test(prefix)) return 'a control character in the prefix';
  if (prefix.split('/').some((part) => part === '')) return 'the prefix has an empty part';
  if (isAltered(prefix)) return `Azure changes a prefix with a backslash, or a part that ends with a dot`;
  if (Buffer.byteLength(prefix) > PREFIX_LIMIT_BYTES)
    return `the prefix has more than ${PREFIX_LIMIT_BYTES} bytes, too many for Azure's limit of 1024 for a name`;
  return undefined;
}

/**
 * Azure, and programs that reach it, take a backslash as a slash, and drop dots at the end of a part of a name (Microsoft
 * Learn, "Naming and Referencing Containers, Blobs, and Metadata").
 */
export function isAltered(name: string): boolean {
  return /\\|\.(\/|$)/.test(name);
}

/** The parts of a normalised URL. The prefix is empty, or ends with a slash. */
export function splitUrl(url: string): {
  readonly account: string;
  readonly container: string;
  readonly prefix: string;
} {
  const [, account = '', container = '', prefix = ''] = PARTS.exec(url) ?? [];
  return { account, container, prefix: prefix === '' ? '' : `${prefix.replace(/\/+$/, '')}/` };
}
