// The options for stores: where objects go, and where inputs come from.
import type { Settings, StoreSettings } from '../../model/format/settings.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { KIND_OPTIONS, type KindOption } from '../../store/open.ts';
import { parseStoreUrl, storeDirectory } from '../../store/url.ts';
import type { Reader } from './readers.ts';
import { ALL, type RunName, group, type Option, type OptionSpec, RESTORING } from './spec.ts';
import type { Parse, RunCaller, Values } from './values.ts';

type KindName = keyof typeof KIND_OPTIONS;

const OF_KINDS = Object.fromEntries(
  Object.entries<KindOption>(KIND_OPTIONS).map(([name, option]) => [name, specOf(name, option)]),
) as Readonly<Record<KindName, ReturnType<typeof specOf>>>;

function specOf(
  name: string,
  { argument, isRepeated, help, whyNot }: KindOption,
): OptionSpec & { readonly on: readonly RunName[] } {
  if (argument === undefined) return { flags: `--${name}`, help, on: ALL };
  const read: Reader<string> = (text) => whyNot?.(text) ?? { value: text };
  return { flags: `--${name} ${argument}`, help, on: ALL, read, ...(isRepeated ? { kind: 'list' } : {}) };
}

/** The part of a prefix that the rest leaves (store/contract/prefix.ts). */
const NAMESPACE_LENGTH = 64;

/** It becomes directories, or parts of keys. */
const namespace: Reader<string> = (text) =>
  text.length <= NAMESPACE_LENGTH && /^[A-Za-z0-9][\w.-]*(?:\/[A-Za-z0-9][\w.-]*)*$/.test(text)
    ? { value: text }
    : {
        is: `not a namespace: up to ${NAMESPACE_LENGTH} letters, digits, dots, _ and -, in parts between slashes`,
        example: 'ada/melt',
      };

export const STORE = group('Store:', {
  to: {
    flags: '--to <url>',
    help: 's3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix, sftp://user@host/dir, file:///dir or a directory',
    on: ALL,
    // A default for trying out capture.
    default: './capture-store',
  },
  from: {
    flags: '--from <url>',
    help: 'where inputs are looked for first; never written',
    on: RESTORING,
    otherwise: 'as --to',
  },
  namespace: {
    flags: '--namespace <name>',
    help: "the last part of --to, to keep users' data apart",
    on: ALL,
    read: namespace,
  },
  ...OF_KINDS,
  unfenced: {
    flags: '--unfenced',
    help: 'use a server without create-only puts: two attempts may then collide',
    on: ALL,
  },
});

export function storeOf(
  values: Values,
  caller: RunCaller,
): Pick<Settings, 'to' | 'from' | 'perishableStore'> {
  const url: Parse<string> = (text, source) => parseStoreUrl(text, source, caller.cwd);
  const how = {
    flags: kindFlags(values),
    unfenced: values.has(STORE.unfenced),
  };
  const name = values.of(STORE.namespace);
  const to = values.parsed(STORE.to, (text, source) => url(inNamespace(text, name), source));
  const from = values.parsed(STORE.from, url);
  return {
    to: { url: to, ...how },
    perishableStore: !values.has(STORE.to) || goesWith(to, caller),
    from: from === undefined ? undefined : { url: from, ...how },
  };
}

/** As the settings of a store have them (`flags`). */
export function kindFlags(values: Values): readonly string[] {
  return (Object.keys(KIND_OPTIONS) as KindName[]).flatMap((name) => {
    const option: Option = STORE[name];
    const given = values.given(option)?.values ?? [];
    if (option.kind === 'flag') return given.length > 0 ? [name] : [];
    // Wrong values are reported, and not used.
    values.of(option);
    return (option.kind === 'list' ? given : given.slice(-1)).map((value) => `${name}=${value}`);
  });
}

/** The URL of a store, with the namespace as its last part. */
export function inNamespace(text: string, name: string | undefined): string {
  return name === undefined || text === '' ? text : `${text.replace(/\/+$/, '')}/${name}`;
}

/** Whether the store vanishes with the work directory. Nobody deletes a work directory that is a container's root. */
function goesWith(url: string, place: StorePlace): boolean {
  return place.workdir !== '/' && storesInside({ to: { url }, from: undefined }, place).length > 0;
}

type StorePlace = Pick<RunCaller, 'workdir' | 'outside'>;

interface Stores {
  readonly to: Pick<StoreSettings, 'url'>;
  readonly from: Pick<StoreSettings, 'url'> | undefined;
}

/** Stores inside the work directory, by their paths in it, with links resolved. */
export function storesInside({ to, from }: Stores, { workdir, outside }: StorePlace): readonly RelPath[] {
  return [to, from].flatMap((store) => {
    const directory = store === undefined ? undefined : storeDirectory(store.url);
    const inside = directory === undefined ? undefined : outside.pathInside(workdir, directory);
    return inside === undefined || inside === '' ? [] : [inside];
  });
}

export function refuseStore(values: Values, { to }: Settings, { workdir, outside }: StorePlace): void {
  const directory = storeDirectory(to.url);
  if (directory === undefined || outside.pathInside(workdir, directory) !== '') return;
  values.refuse(
    `the store is the work directory itself (${showPath(workdir)})`,
    'name another directory with --to',
  );
}
