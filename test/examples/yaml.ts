// Reads the YAML that the manifests under examples/ are written in, and refuses every other: maps, lists, words,
// quoted words, numbers, true and false, flow lists and maps of words, and literal text (`|`).

export type Yaml = string | number | boolean | readonly Yaml[] | { readonly [key: string]: Yaml };

interface Line {
  readonly indent: number;
  readonly text: string;
  readonly number: number;
}

/** Throws with the line's number where the text is not what it knows. */
export function parseYaml(text: string): Yaml {
  const raw = text.split('\n');
  const lines = raw.flatMap((line, at): Line[] => {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) return [];
    if (line.includes('\t')) throw new Error(`line ${at + 1}: a tab`);
    return [{ indent: line.length - line.trimStart().length, text: trimmed, number: at + 1 }];
  });
  const [value, rest] = block(lines, 0, raw);
  if (rest[0] !== undefined) throw new Error(`line ${rest[0].number}: indented otherwise`);
  return value;
}

function block(lines: readonly Line[], least: number, raw: readonly string[]): [Yaml, readonly Line[]] {
  const [first] = lines;
  if (first === undefined || first.indent < least) throw new Error(`line ${first?.number}: nothing follows`);
  return first.text.startsWith('- ') ? list(lines, first.indent, raw) : map(lines, first.indent, raw);
}

function list(lines: readonly Line[], indent: number, raw: readonly string[]): [Yaml, readonly Line[]] {
  const items: Yaml[] = [];
  let rest = lines;
  for (let line = rest[0]; line?.indent === indent && line.text.startsWith('- '); line = rest[0]) {
    const text = line.text.slice(2).trim();
    const inner = indent + line.text.length - text.length;
    if (/^[\w.-]+:( |$)/.test(text)) {
      // A map whose first key stands behind the dash.
      const [value, left] = map([{ ...line, indent: inner, text }, ...rest.slice(1)], inner, raw);
      items.push(value);
      rest = left;
    } else if (text === '|') {
      const [value, left] = literal(line, rest.slice(1), raw);
      items.push(value);
      rest = left;
    } else {
      items.push(scalar(text, line));
      rest = rest.slice(1);
    }
  }
  return [items, rest];
}

function map(lines: readonly Line[], indent: number, raw: readonly string[]): [Yaml, readonly Line[]] {
  const entries = new Map<string, Yaml>();
  let rest = lines;
  for (let line = rest[0]; line?.indent === indent && !line.text.startsWith('- '); line = rest[0]) {
    const [, key = '', text = ''] = /^([\w./-]+):(?: +(.*))?$/.exec(line.text) ?? [];
    if (key === '') throw new Error(`line ${line.number}: no key: ${line.text}`);
    if (entries.has(key)) throw new Error(`line ${line.number}: ${key} a second time`);
    const [value, left] =
      text === '' ? block(rest.slice(1), indent + 1, raw) : [scalar(text, line), rest.slice(1)];
    entries.set(key, value);
    rest = left;
  }
  return [Object.fromEntries(entries), rest];
}

/** The text below `|`, its common indent taken away; comments and empty lines in it are text. */
function literal(line: Line, lines: readonly Line[], raw: readonly string[]): [string, readonly Line[]] {
  const indent = lines[0]?.indent ?? 0;
  if (indent <= line.indent) throw new Error(`line ${line.number}: no text follows`);
  const end = lines.findIndex((one) => one.indent < indent);
  const last = end === -1 ? raw.length : (lines[end]?.number ?? 0) - 1;
  const text = raw.slice(line.number, last).map((one) => one.slice(indent));
  return [`${text.join('\n').trimEnd()}\n`, end === -1 ? [] : lines.slice(end)];
}

function scalar(text: string, { number }: Line): Yaml {
  if (text === '{}') return {};
  const flow = /^\[(.*)\]$/.exec(text)?.[1];
  if (flow !== undefined)
    return flow.split(',').map((word) => scalar(word.trim(), { number, indent: 0, text }));
  const quoted = /^"([^"\\]*)"$/.exec(text)?.[1] ?? /^'([^']*)'$/.exec(text)?.[1];
  if (quoted !== undefined) return quoted;
  if (/^-?\d+$/.test(text)) return Number(text);
  if (text === 'true' || text === 'false') return text === 'true';
  if (/^[&*!|>{}[\]%@`"'?]/.test(text) || /: | #/.test(text)) throw new Error(`line ${number}: ${text}`);
  return text;
}
