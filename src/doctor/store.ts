// Does everything once that a run does with a store, with its own objects: list, put, create-only put, get, copy,
// clock, throughput, delete. Deletes its objects, and names those that it may not delete.
import { randomBytes, randomUUID } from 'node:crypto';
import { clockMs } from '../native/clock.ts';
import { TASKS_PREFIX } from '../model/format/keys.ts';
import { reasonOf } from '../model/errors.ts';
import { formatMs } from '../model/units.ts';
import { holds } from '../store/contract/driver.ts';
import { ABSENT, exactly, type Access, type Store, StoreError } from '../store/contract/store.ts';
import { type Finding, fail, ok, warn } from './finding.ts';
import { measure } from './throughput.ts';

export interface StoreExam {
  readonly store: Store;
  /** How long a run has to send its last files, ms. */
  readonly graceMs: number;
  /** Sizes of the objects that measure the throughput, one after the other. */
  readonly sizesBytes: readonly number[];
  readonly signal: AbortSignal;
}

/** One exam of one store: the objects that it has put and not deleted yet. */
class Exam {
  readonly store: Store;
  readonly signal: AbortSignal;
  readonly left = new Set<string>();
  /** A task name never has a tilde. */
  readonly prefix = `${TASKS_PREFIX}~doctor-${randomUUID()}`;
  readonly body = randomBytes(1024);

  constructor({ store, signal }: StoreExam) {
    this.store = store;
    this.signal = signal;
  }

  key(name: string): string {
    const key = `${this.prefix}-${name}`;
    this.left.add(key);
    return key;
  }
}

const TIDY_MS = 10_000;

/** Yields each finding as soon as it is known. */
export async function* examineStore(asked: StoreExam): AsyncGenerator<Finding> {
  const exam = new Exam(asked);
  try {
    const access = await credentials(exam);
    yield access;
    // If the store does not answer, every other check would fail the same way, after its own timeout.
    if (access.level === 'fail') return;
    const reached = await list(exam);
    yield reached.finding;
    if (!reached.answers) return;
    const put = await create(exam);
    yield put;
    if (put.level === 'fail') return;
    yield await createAgain(exam);
    yield await replace(exam);
    yield await get(exam);
    yield await copy(exam);
    yield await clock(exam);
    const removed = await remove(exam);
    yield removed;
    // Large objects only if they can be deleted.
    if (removed.level === 'ok') yield await measured(exam, asked);
    yield await sweep(exam);
  } finally {
    // Also after a signal, so it has its own timeout. If deleting is refused, a finding has named what stays.
    if (exam.left.size > 0)
      await exam.store.delete([...exam.left], AbortSignal.timeout(TIDY_MS)).catch(() => undefined);
  }
}

async function credentials({ store, signal }: Exam): Promise<Finding> {
  const check = 'credentials';
  let access: Access | undefined;
  try {
    access = await store.access(signal);
  } catch (error) {
    return failed(check, error);
  }
  if (access === undefined) return ok(check, 'none are needed');
  const { expiresMs, isSession, isRenewable } = access;
  const renewed = isRenewable ? 'capture reads them anew before that' : 'they are not renewed';
  if (expiresMs !== undefined) {
    const leftMs = expiresMs - clockMs();
    const facts = { expires: new Date(expiresMs).toISOString() };
    if (leftMs > 0) return ok(check, `they expire in ${formatMs(leftMs)}; ${renewed}`, facts);
    return fail(check, 'they have expired', RENEW, facts);
  }
  if (!isSession) return ok(check, 'they do not expire by themselves');
  const says = 'they belong to a session, and its end is unknown';
  if (isRenewable) return warn(check, `${says}; they are read again from the file when it ends`, RENEW);
  return warn(check, `${says}; a variable cannot be renewed while a run goes on`, ROLE);
}

const RENEW = 'renew them in time (aws sso login, the credentials file)';
const ROLE = 'for runs of hours use AWS_PROFILE with a role, or keys without a session';

interface Reachability {
  readonly finding: Finding;
  /** False: no other check is worth trying. */
  readonly answers: boolean;
}

async function list({ store, prefix, signal }: Exam): Promise<Reachability> {
  const startMs = performance.now();
  try {
    // The first page is enough.
    for await (const _ of store.list(prefix, signal)) break;
  } catch (error) {
    const denied = error instanceof StoreError && error.kind === 'denied';
    return { finding: failed('list', error), answers: denied };
  }
  const answerMs = performance.now() - startMs;
  const finding = ok('list', `answers in ${formatMs(answerMs)}`, { answerMs: Math.round(answerMs) });
  return { finding, answers: true };
}

function create(exam: Exam): Promise<Finding> {
  const { store, body, signal } = exam;
  return checked('put', async () => {
    const meta = { push: randomUUID() };
    const outcome = await store.put(exam.key('probe'), body, { meta, precondition: ABSENT, signal });
    if (outcome.kind === 'stored') return ok('put', 'objects can be created');
    return fail(
      'put',
      'a new object is said to exist already',
      'something else answers in place of the store',
    );
  });
}

/** If two attempts claim an index at once, only one may win. */
function createAgain(exam: Exam): Promise<Finding> {
  const { store, body, signal } = exam;
  return checked('create-only put', async () => {
    const meta = { push: randomUUID() };
    const outcome = await store.put(exam.key('probe'), body, { meta, precondition: ABSENT, signal });
    if (outcome.kind === 'exists') return ok('create-only put', 'an existing object is not replaced');
    return fail(
      'create-only put',
      'the store ignores it (If-None-Match): two attempts of one index could not be told apart',
      'use a store with create-only puts, or --unfenced if your scheduler never starts an index twice',
    );
  });
}

/** No failure either way: without the condition, only a stalled attempt could do harm. */
function replace(exam: Exam): Promise<Finding> {
  const { store, body, signal } = exam;
  const check = 'replacing put';
  return checked(check, async () => {
    const key = exam.key('probe');
    const precondition = exactly(await store.head(key, signal));
    await store.put(key, body, { meta: { push: randomUUID() }, precondition, signal });
    if (await store.replacesAtomically(signal))
      return ok(check, 'one that is late, or of a stalled attempt, is refused');
    return ok(
      check,
      'works; only an attempt that hung, and wakes up after a later one, could replace the result of that one',
    );
  });
}

function get(exam: Exam): Promise<Finding> {
  const { store, body, signal } = exam;
  return checked('get', async () => {
    const got = await store.get(exam.key('probe'), { aheadBytes: body.byteLength, signal });
    if (got !== undefined && (await holds(got.body, body))) return ok('get', 'what was stored is read back');
    const what = got === undefined ? 'an object that was just put is not there' : 'other bytes come back';
    return fail(
      'get',
      what,
      'something between here and the store keeps or changes answers: check HTTPS_PROXY',
    );
  });
}

/** Results that turn out to be partial are renamed inside the store. */
function copy(exam: Exam): Promise<Finding> {
  const { store, signal } = exam;
  return checked('copy', async () => {
    await store.copy(exam.key('probe'), exam.key('copy'), signal);
    return ok('copy', 'objects can be copied inside the store');
  });
}

/** By the store's time of the put: S3 gives whole seconds. */
function clock(exam: Exam): Promise<Finding> {
  const { store, body, signal } = exam;
  return checked('clock', async () => {
    const key = exam.key('clock');
    const beforeMs = timeOfDayMs();
    await store.put(key, body, { meta: { push: randomUUID() }, signal });
    const afterMs = timeOfDayMs();
    const storedMs = (await store.head(key, signal))?.modifiedMs;
    if (storedMs === undefined) return ok('clock', 'the store does not say when an object was put');
    const skewMs = skew(storedMs, { beforeMs, afterMs });
    const facts = { skewMs };
    if (Math.abs(skewMs) < TOLERATED_MS) return ok('clock', "this machine's and the store's agree", facts);
    const how = `this machine is ${formatMs(Math.abs(skewMs))} ${skewMs > 0 ? 'behind' : 'ahead of'} the store`;
    return warn(
      'clock',
      `${how}: ages are wrong, and from 15 minutes on S3 refuses what is signed by this clock`,
      'set the clock of this machine (timedatectl, chronyc)',
      facts,
    );
  });
}

/** NTP never lets clocks differ this much, and a slow store cannot explain it. */
const TOLERATED_MS = 30_000;
const SECOND_MS = 1000;

/** The least difference of the two clocks, ms; positive if this machine's is behind. */
function skew(
  storedMs: number,
  { beforeMs, afterMs }: { readonly beforeMs: number; readonly afterMs: number },
): number {
  if (storedMs > afterMs) return storedMs - afterMs;
  return storedMs + SECOND_MS < beforeMs ? storedMs + SECOND_MS - beforeMs : 0;
}

/** Not the monotonic clock: this is about the time of day. */
function timeOfDayMs(): number {
  return new Date().getTime();
}

/** A run that may not delete costs space, but loses nothing. */
async function remove(exam: Exam): Promise<Finding> {
  const { store, signal, left } = exam;
  const keys = [...left];
  try {
    await store.delete(keys, signal);
    if ((await store.head(keys[0] ?? '', signal)) !== undefined)
      return fail('delete', 'an object is still there after it was deleted', 'check the server');
    left.clear();
    return ok('delete', 'objects can be deleted');
  } catch (error) {
    signal.throwIfAborted();
    left.clear();
    const { says, mend = '' } = failed('delete', error);
    const cost = 'old checkpoints stay in the store';
    return warn('delete', `${says}; ${cost}, and so do these objects: ${keys.join(', ')}`, mend);
  }
}

function measured(exam: Exam, { graceMs, sizesBytes }: StoreExam): Promise<Finding> {
  return checked('throughput', async () => {
    const key = exam.key('throughput');
    const finding = await measure(exam.store, { key, graceMs, sizesBytes, signal: exam.signal });
    await exam.store.delete([key], exam.signal);
    exam.left.delete(key);
    return finding;
  });
}

/** Uploads that a dead machine has left unfinished take space until somebody aborts them. */
function sweep({ store, prefix, signal }: Exam): Promise<Finding> {
  return checked('uploads', async () => {
    const maySee = await store.sweep(prefix, () => false, signal);
    if (maySee) return ok('uploads', 'unfinished ones of dead attempts do not stay');
    return warn(
      'uploads',
      'unfinished ones of dead attempts cannot be listed (ListMultipartUploads), and stay',
      'allow that, or give the bucket a lifecycle rule: AbortIncompleteMultipartUpload',
    );
  });
}

async function checked(check: string, act: () => Promise<Finding>): Promise<Finding> {
  try {
    return await act();
  } catch (error) {
    return failed(check, error);
  }
}

/** The store's own message. Any other error is a bug of capture's, or a signal. */
function failed(check: string, error: unknown): Finding {
  if (!(error instanceof StoreError)) throw error;
  return fail(check, reasonOf(error), error.hint ?? 'see docs/fault-matrix.md');
}
