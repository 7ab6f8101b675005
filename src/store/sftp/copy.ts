// Copies and renames inside the server. No bytes pass through us if the server can copy (copy-data, OpenSSH 9.0).
import { StoreError, type PromoteOptions, type PutOutcome } from '../contract/store.ts';
import { discard, newDraft, begin, handleOn, type Draft, sendBody } from './draft.ts';
import { dropMeta, isSame, tagOf } from './metadata.ts';
import { check, closeLater, folderOf, pathOf, type Place, request, syncFolder } from './place.ts';
import { giveName, inOrder, isOurs, takeNames, writeObject } from './put.ts';
import { getObject, headObject, look, openState } from './read.ts';
import { type Session, unlessMissing } from './session.ts';

/** In one request, so that each is answered in time. */
const COPIED_AT_ONCE_BYTES = 2 ** 30;

interface Both {
  readonly from: string;
  readonly to: string;
  readonly signal: AbortSignal | undefined;
}

export async function copyObject(place: Place, { from, to, signal }: Both): Promise<void> {
  const source = await headObject(place, from, signal);
  if (source === undefined) throw missing('copy', place, from);
  await inOrder(place, to, signal, () =>
    writeObject(newDraft(place, to, source.meta, source.permissions), { signal }, async (draft) => {
      const isDone = await request(place, { verb: 'put', key: to, signal }, (session) =>
        session.copies ? copyInside(session, draft, from, source.tag) : Promise.resolve(false),
      );
      if (isDone) return;
      const got = await getObject(place, from, { signal });
      if (got === undefined || got.tag !== source.tag) throw missing('copy', place, from);
      await sendBody(draft, got.body, { signal });
    }),
  );
}

/** Begins anew in each try. */
async function copyInside(session: Session, draft: Draft, from: string, tag: string): Promise<true> {
  const { place } = draft;
  const source = await openState(session, place, from);
  if (source === undefined) throw missing('copy', place, from);
  try {
    if (tagOf(source.attrs, source.meta) !== tag) throw missing('copy', place, from);
    const target = await handleOn(session, draft);
    const { sizeBytes } = source.attrs;
    for (let at = 0; at < sizeBytes; at += COPIED_AT_ONCE_BYTES)
      await session.copy(source.handle, target, at, Math.min(COPIED_AT_ONCE_BYTES, sizeBytes - at));
    if (!isSame(await session.fstat(source.handle), source.attrs))
      throw new StoreError('transient', `copy ${place.url}/${from}: it was written while it was read`);
    draft.sizeBytes = sizeBytes;
    draft.isDoubtful = false;
    draft.refill = (again) => copyInside(again, draft, from, tag).then(() => undefined);
    return true;
  } finally {
    closeLater(session, source.handle);
  }
}

function missing(operation: string, place: Place, from: string): StoreError {
  return new StoreError('missing', `${operation} ${place.url}/${from}: there is no such object`);
}

/**
 * Renames an object. Its file gets a new time first, so that its metadata have a name of their own under both keys, until
 * the rename is done.
 */
export async function promoteObject(
  place: Place,
  { from, to, signal }: Both,
  { precondition, source }: Pick<PromoteOptions, 'precondition' | 'source'>,
): Promise<PutOutcome> {
  const found = await headObject(place, from, signal);
  if (found === undefined || (source !== undefined && found.meta['push'] !== source.push))
    throw missing('promote', place, from);
  const draft = newDraft(place, to, found.meta);
  const ask = { verb: 'put', key: to, signal } as const;
  return inOrder(place, to, signal, async () => {
    try {
      await request(place, ask, (session) => begin(session, draft));
      return await request(place, ask, (session) =>
        promote(session, draft, { from, to, signal }, precondition),
      );
    } finally {
      await discard(draft);
    }
  });
}

async function promote(
  session: Session,
  draft: Draft,
  { from, to, signal }: Both,
  precondition: PromoteOptions['precondition'],
): Promise<PutOutcome> {
  const { place, meta } = draft;
  await check(session, place);
  const path = pathOf(place, from);
  const old = await look(session, place, from);
  if (old === undefined || !(isOurs(old.meta, meta) || meta['push'] === undefined)) {
    // An earlier try may have renamed it.
    const there = await look(session, place, to);
    if (there === undefined || !isOurs(there.meta, meta)) throw missing('promote', place, from);
    return { kind: 'stored', tag: tagOf(there.attrs, there.meta) };
  }
  const state = await takeNames(session, draft, [to, from], old.attrs.sizeBytes);
  await touch(session, path, state.mtimeS);
  await dropMeta(session, place, from, old.attrs);
  const placing = { key: to, meta, precondition, from: path, signal };
  const no = await giveName(session, place, placing, () => undefined);
  if (no !== undefined && no.kind !== 'stored') {
    await dropMeta(session, place, to, state);
    return no;
  }
  // After a link there are two names.
  await session.remove(path).catch(unlessMissing);
  await syncFolder(session, `${place.directory}/${folderOf(from)}`);
  await dropMeta(session, place, from, state);
  return { kind: 'stored', tag: tagOf(state, meta) };
}

async function touch(session: Session, path: string, mtimeS: number): Promise<void> {
  const handle = await session.open(path, 'r+');
  try {
    await Promise.all([session.setMtime(handle, mtimeS), session.sync(handle)]);
  } finally {
    closeLater(session, handle);
  }
}
