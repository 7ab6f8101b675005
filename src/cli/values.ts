// The values of the options that were given, read one by one.
import { isMistake, type Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import type { GivenOf } from './option-spec.ts';
import type * as read from './readers.ts';

/** Reads single values; what cannot be read becomes a mistake, and the fallback stands in for it. */
export interface Values<Name extends string> {
  one<T>(name: Name, reader: read.Reader<T>, fallback: T): T;
  optional<T>(name: Name, reader: read.Reader<T>): T | undefined;
  /** Of an option that may be repeated, each value. */
  each<T>(name: Name, reader: read.Reader<T>): readonly T[];
  with<T>(name: Name, parse: (text: string, source: string) => string | Mistake, fallback: T): string | T;
}

export function valuesOf<Name extends string>(given: GivenOf<Name>, mistakes: Mistake[]): Values<Name> {
  const readOne = <T>(text: string, source: string, reader: read.Reader<T>): T | undefined => {
    const found = reader(text);
    if ('value' in found) return found.value;
    mistakes.push({
      message: `${source} '${showPath(text)}': ${found.is}`,
      hint: source.startsWith('--') ? `${source} ${found.example}` : `${source}=${found.example}`,
    });
    return undefined;
  };
  const optional: Values<Name>['optional'] = (name, reader) => {
    const option = given.get(name);
    const text = option?.values.at(-1);
    return option === undefined || text === undefined ? undefined : readOne(text, option.source, reader);
  };
  return {
    optional,
    each: (name, reader) => {
      const { values = [], source = '' } = given.get(name) ?? {};
      return values.map((text) => readOne(text, source, reader)).filter((value) => value !== undefined);
    },
    one: (name, reader, fallback) => optional(name, reader) ?? fallback,
    with: (name, parse, fallback) => {
      const option = given.get(name);
      if (option === undefined) return fallback;
      const found = parse(option.values.at(-1) ?? '', option.source);
      if (!isMistake(found)) return found;
      mistakes.push(found);
      return fallback;
    },
  };
}
