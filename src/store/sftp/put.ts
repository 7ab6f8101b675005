// Writes objects. A put writes a temporary, syncs it, and gives it its name: by a hard link if it may only create, otherwise
// by a rename. A kill at any time leaves the earlier object and at most a temporary.
//
// If the connection breaks, the put goes on over the next one. A request whose answer is lost may still be obeyed later:
// so before another try the temporary gets another name, and the late request finds nothing.
import { untilAborted } from '../../model/waiting.ts';
import {
  type ObjectMeta,
  type Precondition,
  type PutOptions,
  type PutOutcome,
  StoreError,
} from '../contract/store.ts';
import {
  begin,
  discard,
  type Draft,
  handleOn,
  nameOf,
  newDraft,
  removed,
  rename,
  sendBody,
  syncNote,
  verify,
} from './draft.ts';
import { dropMeta, metaPath, type State, tagOf } from './metadata.ts';
import { check, folderOf, inFolder, OURS, pathOf, type Place, request, syncFolder } from './place.ts';
import { look } from './read.ts';
import { type Attrs, hasStatus, kindOf, type Session, STATUS, unlessMissing } from './session.ts';

/** Each is for a state of the same size that was written in the same second. */
const MOST_NAMES = 1000;

/** Makes one object visible, atomically. */
export async function putObject(
  place: Place,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const { signal } = options;
  return inOrder(place, key, signal, () =>
    writeObject(newDraft(place, key, options.meta), options, (draft) =>
      body instanceof Uint8Array
        ? sendBody(draft, [body], { signal, onSent: options.onSent })
        : sendBody(draft, body, options),
    ),
  );
}

/** `fill` sends what the object shall have. Its errors are thrown unchanged. */
export async function writeObject(
  draft: Draft,
  { precondition, signal }: Pick<PutOptions, 'precondition' | 'signal'>,
  fill: (draft: Draft) => Promise<void>,
): Promise<PutOutcome> {
  const { place, key, meta } = draft;
  const ask = { verb: 'put', key, signal } as const;
  const early = await request(place, ask, async (session) => {
    const [no] = await Promise.all([
      refusal(session, place, { key, meta, precondition }),
      check(session, place),
    ]);
    return no;
  });
  if (early !== undefined) return early;
  try {
    await request(place, ask, (session) => begin(session, draft));
    await fill(draft);
    return await request(place, ask, (session) => finish(session, draft, { precondition, signal }));
  } finally {
    await discard(draft);
  }
}

interface Write {
  readonly key: string;
  readonly meta: ObjectMeta;
  readonly precondition: Precondition | undefined;
}

/** The outcome of a write whose precondition fails on the current object; undefined if it holds. */
async function refusal(
  session: Session,
  place: Place,
  { key, meta, precondition }: Write,
): Promise<PutOutcome | undefined> {
  if (precondition === undefined || precondition.kind === 'any') return undefined;
  const there = await look(session, place, key);
  if (there !== undefined && isOurs(there.meta, meta))
    return { kind: 'stored', tag: tagOf(there.attrs, there.meta) };
  if (precondition.kind === 'absent') return there === undefined ? undefined : { kind: 'exists' };
  const isIt = there !== undefined && tagOf(there.attrs, there.meta) === precondition.tag;
  return isIt ? undefined : { kind: 'replaced-meanwhile' };
}

/** An earlier try has stored it, and its answer was lost. */
export function isOurs(there: ObjectMeta, { push }: ObjectMeta): boolean {
  return push !== undefined && there['push'] === push;
}

async function finish(
  session: Session,
  draft: Draft,
  { precondition, signal }: Pick<PutOptions, 'precondition' | 'signal'>,
): Promise<PutOutcome> {
  const { place, key, meta } = draft;
  await check(session, place);
  if (draft.mayBePlaced && !(await rename(session, draft))) {
    const there = await look(session, place, key);
    if (there === undefined || !isOurs(there.meta, meta)) throw removed(place, key);
    await syncFolder(session, `${place.directory}/${folderOf(key)}`);
    return { kind: 'stored', tag: tagOf(there.attrs, there.meta) };
  }
  const handle = await handleOn(session, draft);
  await verify(session, draft, handle);
  const state = await takeNames(session, draft, [key], draft.sizeBytes);
  // A server obeys requests for one file in their order (section 3).
  await Promise.all([session.setMtime(handle, state.mtimeS), session.sync(handle)]);
  signal?.throwIfAborted();
  const placing = { key, meta, precondition, from: nameOf(draft), signal };
  const no = await giveName(session, place, placing, () => (draft.mayBePlaced = true));
  if (no === undefined || no.kind === 'stored') return { kind: 'stored', tag: tagOf(state, meta) };
  await dropMeta(session, place, key, state);
  return no;
}

/** The names of the metadata of a new state, for each of the keys that it may have. */
export async function takeNames(
  session: Session,
  draft: Draft,
  keys: readonly string[],
  sizeBytes: number,
): Promise<State> {
  const { place, note } = draft;
  const now = await syncNote(session, draft);
  const there = await Promise.all(keys.map((key) => session.lstat(pathOf(place, key)).catch(unlessMissing)));
  const taken = there.filter((attrs) => attrs?.sizeBytes === sizeBytes).map((attrs) => attrs?.mtimeS ?? 0);
  const first = Math.max(now, ...taken.map((mtimeS) => mtimeS + 1));
  for (let mtimeS = first; mtimeS < first + MOST_NAMES; mtimeS += 1) {
    const state = { sizeBytes, mtimeS };
    const paths = keys.map((key) => metaPath(place, key, state));
    const isFree = await Promise.all(paths.map((path) => takeName(session, place, note, path)));
    if (isFree.every(Boolean)) {
      await Promise.all(paths.map((path) => syncFolder(session, path.replace(/\/[^/]*$/, ''))));
      return state;
    }
  }
  throw new StoreError('busy', `put ${place.url}/${keys[0]}: too many writes of the same size at once`);
}

async function takeName(session: Session, place: Place, note: string, path: string): Promise<boolean> {
  const folder = `${OURS}/meta/${/([^/]*)\/[^/]*$/.exec(path)?.[1] ?? ''}`;
  return inFolder(session, place, folder, () => linkNew(session, note, path));
}

/** Those of servers that make hard links, and refuse a second one of the same name. */
const linking = new WeakSet<Session>();

/** False if the name is taken. */
async function linkNew(session: Session, from: string, to: string): Promise<boolean> {
  try {
    await session.link(from, to);
    if (!linking.has(session)) await proveLinks(session, from, to);
    return true;
  } catch (error) {
    if (!hasStatus(error, STATUS.failure)) throw error;
    if ((await session.lstat(to).catch(unlessMissing)) === undefined) throw error;
    return false;
  }
}

/** A server may say that it has made a link, and have made none: `rclone serve sftp` (1.60). */
async function proveLinks(session: Session, from: string, to: string): Promise<void> {
  const isRefused = await session.link(from, to).then(
    () => false,
    (error: unknown) => {
      if (!hasStatus(error, STATUS.failure)) throw error;
      return true;
    },
  );
  if (!isRefused || (await session.lstat(to).catch(unlessMissing)) === undefined)
    throw new StoreError('refused', `put ${to}: the server says that it makes hard links, and makes none`, {
      hint: 'without them, capture cannot know that it is the only one; for rclone see docs/stores.md',
    });
  linking.add(session);
}

export interface Placing extends Write {
  /** The complete file. */
  readonly from: string;
  readonly signal: AbortSignal | undefined;
}

/** Undefined if the object is in place. `asked` is called before the server is asked to place it. */
export async function giveName(
  session: Session,
  place: Place,
  { key, meta, precondition, from, signal }: Placing,
  asked: () => void,
): Promise<PutOutcome | undefined> {
  const path = pathOf(place, key);
  // A rename replaces any file, so the check comes as late as possible.
  const no = await refusal(session, place, { key, meta, precondition });
  if (no !== undefined) return no;
  const replaced = await session.lstat(path).catch(unlessMissing);
  refuseOtherKinds(place, key, replaced, precondition);
  signal?.throwIfAborted();
  asked();
  if (precondition?.kind === 'absent') {
    const isNew = await inFolder(session, place, folderOf(key), () => linkNew(session, from, path));
    if (!isNew) return (await refusal(session, place, { key, meta, precondition })) ?? { kind: 'exists' };
  } else {
    await inFolder(session, place, folderOf(key), () => session.rename(from, path));
  }
  await syncFolder(session, `${place.directory}/${folderOf(key)}`);
  if (replaced !== undefined && kindOf(replaced) === 'file') await dropMeta(session, place, key, replaced);
  return undefined;
}

function refuseOtherKinds(
  place: Place,
  key: string,
  found: Attrs | undefined,
  precondition: Precondition | undefined,
): void {
  if (found === undefined || kindOf(found) === 'file') return;
  const where = `put ${place.url}/${key}`;
  if (kindOf(found) === 'directory')
    throw new StoreError('impossible', `${where}: one key is both an object and the folder of another`);
  // A rename replaces a link; a put that may only create must not.
  if (precondition?.kind !== 'absent') return;
  throw new StoreError('impossible', `${where}: a link, or what is no file, stands under its key`, {
    hint: 'find out who has put it there, and remove it',
  });
}

/**
 * Runs a write after those of the same key that were given up: such a one may still take place, but not after a later one.
 */
export async function inOrder<T>(
  place: Place,
  key: string,
  signal: AbortSignal | undefined,
  write: () => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  await untilAborted(place.givenUp.get(key) ?? Promise.resolve(), signal);
  const answer = write();
  try {
    return await untilAborted(answer, signal);
  } catch (error) {
    if (signal?.aborted === true) keepGivenUp(place, key, answer);
    throw error;
  }
}

function keepGivenUp({ givenUp }: Place, key: string, answer: Promise<unknown>): void {
  const ended = answer.then(
    () => undefined,
    () => undefined,
  );
  givenUp.set(key, ended);
  void ended.then(() => givenUp.get(key) === ended && givenUp.delete(key));
}
