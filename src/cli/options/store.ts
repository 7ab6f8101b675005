// The options that say where objects go, and where inputs come from.
import type { Settings } from '../../model/format/settings.ts';
import type { Mistake } from '../../model/mistake.ts';
import { showPath } from '../../model/path.ts';
import { parseStoreUrl, storeDirectory } from '../../store/url.ts';
import { ALL, group, RESTORING } from './spec.ts';
import type { Parse, Place, Values } from './values.ts';

export const STORE = group('Store:', {
  to: {
    flags: '--to <url>',
    kind: 'value',
    help: 's3://bucket/prefix, file:///dir or a directory',
    on: ALL,
    // To try capture out.
    default: './capture-store',
  },
  from: {
    flags: '--from <url>',
    kind: 'value',
    help: 'where inputs are looked for first; never written',
    on: RESTORING,
    otherwise: 'as --to',
  },
  'path-style': {
    flags: '--path-style',
    kind: 'flag',
    help: 'put the bucket into the path of the URL, not into the host name',
    on: ALL,
  },
  unfenced: {
    flags: '--unfenced',
    kind: 'flag',
    help: 'use a server without create-only puts: two attempts may then collide',
    on: ALL,
  },
});

export function storeOf(
  values: Values,
  { cwd, workdir }: Place,
): Pick<Settings, 'to' | 'from' | 'perishableStore'> {
  const url: Parse<string> = (text, source) => parseStoreUrl(text, source, cwd);
  const how = { pathStyle: values.has(STORE['path-style']), unfenced: values.has(STORE.unfenced) };
  const to = values.parsed(STORE.to, url);
  const from = values.parsed(STORE.from, url);
  return {
    to: { url: to, ...how },
    perishableStore: !values.has(STORE.to) || standsBelow(workdir, to),
    from: from === undefined ? undefined : { url: from, ...how },
  };
}

/** Compares both as the user wrote them, without following links. */
function standsBelow(dir: string, url: string): boolean {
  const directory = storeDirectory(url);
  return directory !== undefined && `${directory}/`.startsWith(`${dir}/`);
}

export function storeContradictions({ to, workdir }: Settings): readonly Mistake[] {
  if (storeDirectory(to.url) !== workdir) return [];
  return [
    {
      message: `the store is the work directory itself (${showPath(workdir)})`,
      hint: 'name another directory with --to',
    },
  ];
}
