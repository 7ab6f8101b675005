// What the server has got, against what the task has closed: when each state became visible, what is lost, and what is
// no state that the task ever closed.
import { md5Of } from './content.mjs';

/**
 * `latenciesMs`: of each close whose state was ever visible; `stored`: files whose last state is the visible one at the
 * end; `torn`: versions that are no state of their file; `storedMs` of a name: when its last state became visible. With
 * `job.unverified` a version is what was closed last.
 */
export async function judge({ server, tool, events, job }) {
  const files = grouped(closesOf(events));
  const versions = (await server.ask('versions'))
    .map((version) => ({ ...version, name: tool.nameOf(version.key.replace(/^run\//, '')) }))
    .filter(({ name, deleted }) => !deleted && files.has(name));
  const digests = job.unverified ? [] : await server.ask('digests', { ids: versions.map(({ id }) => id) });
  const latenciesMs = [];
  const storedMs = new Map();
  const current = new Map();
  const visible = new Set();
  let torn = 0;
  for (const [at, { name, atMs }] of versions.entries()) {
    const closes = files.get(name);
    const found = job.unverified
      ? closes.findLast((close) => close.atMs <= atMs)
      : closes.find((close) => digestOf(close) === digests[at]);
    current.set(name, versions[at]);
    storedMs.delete(name);
    if (found === undefined) torn += 1;
    else if (!visible.has(found)) latenciesMs.push(atMs - found.atMs);
    visible.add(found);
    if (found !== undefined && found === closes.at(-1)) storedMs.set(name, atMs);
  }
  const storedBytes = [...current.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return { latenciesMs, stored: storedMs.size, storedMs, storedBytes, torn, files: files.size };
}

const digestsOfStates = new WeakMap();

function digestOf(close) {
  if (!digestsOfStates.has(close)) digestsOfStates.set(close, md5Of(close));
  return digestsOfStates.get(close);
}

function closesOf(events) {
  return events.filter(({ event }) => event === 'close');
}

function grouped(closes) {
  const files = new Map();
  for (const close of closes) files.set(close.name, [...(files.get(close.name) ?? []), close]);
  return files;
}
