// Where a result of an index goes below the directory: `{index}/{path}`, or the value of --layout. Pure.
import type { Reader } from '../../cli/options/readers.ts';
import { isInside, type RelPath } from '../../model/path.ts';

/** The placeholders of a layout; `name` is the path without its directories. */
const WORDS = ['index', 'path', 'name', 'task'] as const;
type Word = (typeof WORDS)[number];

export interface Layout {
  /** Without the index, results of several indices could have the same name. */
  readonly hasIndex: boolean;
  /** Relative to the directory. A path that leads out of it is refused during the download. */
  readonly place: (of: { readonly index: string; readonly task: string; readonly path: RelPath }) => RelPath;
}

const PLACEHOLDER = /\{([^{}]*)\}/g;

/**
 * An index consists of letters, digits, `-` and `_`. If only such characters separate it from a path, the result is
 * ambiguous.
 */
const BLURRED = /\{index\}[\w-]*\{(?:path|name)\}|\{(?:path|name)\}[\w-]*\{index\}/;

/** `{path}` or `{name}` is required, so that results of one index have different names. */
export const layout: Reader<Layout> = (text) => {
  const example = "'{path}.{index}'";
  const words = [...text.matchAll(PLACEHOLDER)].map(([, word = '']) => word);
  const unknown = words.find((word) => !isWord(word));
  if (unknown !== undefined)
    return { is: `{${unknown}} stands for nothing; {index}, {path}, {name}, {task} do`, example };
  if (!words.includes('path') && !words.includes('name'))
    return { is: 'without {path} or {name} all results would have one name', example };
  if (!isInside(text.replaceAll(PLACEHOLDER, 'x')))
    return { is: 'it leads out of the directory, or into none', example };
  if (BLURRED.test(text))
    return { is: '{index} needs a / or a dot between it and the next word, or 1 and 11 could meet', example };
  return {
    value: {
      hasIndex: words.includes('index'),
      place: ({ index, task, path }) => {
        const of: Readonly<Record<Word, string>> = {
          index,
          task,
          path,
          name: path.slice(path.lastIndexOf('/') + 1),
        };
        return text.replaceAll(PLACEHOLDER, (_, word: Word) => of[word]);
      },
    },
  };
};

function isWord(text: string): text is Word {
  return WORDS.some((word) => word === text);
}
