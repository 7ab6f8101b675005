// Metadata names in Azure are C# identifiers: letters, digits, underscores. Every other character of our names, and the
// underscore itself, becomes `_` and its code in two hexadecimal digits: `run-id` is `run_2did`. Pure.
import type { ObjectMeta } from '../contract/store.ts';

export function azureMeta(meta: ObjectMeta): Record<string, string> {
  return renamed(meta, (name) =>
    name.replaceAll(/^\d|[^a-z0-9]/g, (char) => `_${char.charCodeAt(0).toString(16).padStart(2, '0')}`),
  );
}

export function metaOf(found: Readonly<Record<string, string>> | undefined): ObjectMeta {
  return renamed(found ?? {}, (name) =>
    name
      .toLowerCase()
      .replaceAll(/_([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))),
  );
}

function renamed(meta: ObjectMeta, rename: (name: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(meta).map(([name, value]) => [rename(name), value]));
}
