// One part: each case with each tool in turn, several rounds, the order rotated by one each round; then medians, and
// the ratio of capture's figure to each rival's of the same round. A part that only waits takes all tools side by side.
import { median } from './figures.mjs';

export async function measurePart({ part, tools, server }, settings) {
  const names = part.tools.filter((name) => settings.tools.includes(name));
  // A part may use a tool in a way of its own.
  const found = names
    .map((name) => ({ ...tools.get(name), ...part.own?.[name] }))
    .filter(({ missing }) => missing === undefined);
  const rows = [];
  for (const item of part.cases(settings.size)) {
    const rounds = new Map(found.map((tool) => [tool, []]));
    for (let round = 0; round < settings.rounds; round += 1) {
      const due = rotated(found, round).filter((tool) => isDue(part, { item, tool, round }));
      const measure = async (tool) => {
        process.stderr.write(
          `${part.name}: ${item.name}: ${tool.name}, round ${round + 1} of ${settings.rounds}\n`,
        );
        rounds.get(tool).push(await figuresOf(part, { server, tool, item, size: settings.size }));
      };
      if (part.sideBySide) {
        await server.ask('reset');
        await Promise.all(due.map(measure));
      } else for (const tool of due) await measure(tool);
    }
    rows.push(...rowsOf({ part, item, rounds }));
  }
  const { name, title, columns, plots } = part;
  return { name, title, columns, plots, rounds: settings.rounds, rows };
}

function isDue({ heavyOnce }, { item, tool, round }) {
  if (round > 0 && tool.heavy && heavyOnce) return false;
  if (item.light && tool.heavy) return false;
  return item.only === undefined || tool.name === item.only;
}

async function figuresOf(part, context) {
  try {
    return await part.measure(context);
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    return { error: String(error.message) };
  }
}

function rowsOf({ part, item, rounds }) {
  const captures = [...rounds].find(([{ name }]) => name === 'capture')?.[1] ?? [];
  return [...rounds]
    .filter(([, all]) => all.length > 0)
    .map(([tool, all]) => ({
      case: item.name,
      x: item.x,
      tool: tool.name,
      figures: Object.fromEntries(part.columns.map(({ key }) => [key, middle(all.map((one) => one[key]))])),
      ratios: Object.fromEntries(
        part.columns
          .filter(({ ratio }) => ratio && tool.name !== 'capture')
          .map(({ key }) => [key, median(all.map((one, round) => captures[round]?.[key] / one[key]))]),
      ),
      rounds: all,
    }));
}

/** Words stand as they are, of the first round that has any. */
function middle(values) {
  return values.find((value) => typeof value === 'string') ?? median(values);
}

function rotated(tools, by) {
  const at = by % Math.max(1, tools.length);
  return [...tools.slice(at), ...tools.slice(0, at)];
}
