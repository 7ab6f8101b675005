// What records and metadata say of the bytes before they were sealed: md5s, sizes and offsets. Each is sealed under the
// key of its index, beside what it belongs to, so that a record can be written again by somebody who cannot open it.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { parseForeignJson } from '../model/format/foreign-json.ts';
import { checkSum, type SealedNote, textWithSum } from '../model/format/records.ts';

const CIPHER = 'chacha20-poly1305';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG = { authTagLength: TAG_BYTES };

/** The key of the records of one index. `id` tells it from others, and says nothing of it. */
export interface IndexKey {
  readonly id: string;
  readonly key: Buffer;
}

export function indexKeyOf(key: Buffer): IndexKey {
  return { id: createHash('sha256').update('id').update(key).digest('hex').slice(0, 8), key };
}

type Fields = Record<string, unknown>;

/** `about`: what the values belong to. They open for nothing else. */
export function sealValues({ id, key }: IndexKey, values: Fields, about: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, TAG);
  const text = Buffer.from(JSON.stringify(values));
  cipher.setAAD(Buffer.from(about), { plaintextLength: text.length });
  const sealed = Buffer.concat([cipher.update(text), cipher.final()]);
  return `${id}.${Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64')}`;
}

/** Undefined if the text was changed, or belongs to something else. */
export function openValues({ key }: IndexKey, secret: string, about: string): Fields | undefined {
  const bytes = Buffer.from(secret.slice(secret.indexOf('.') + 1), 'base64');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const text = bytes.subarray(NONCE_BYTES, -TAG_BYTES);
  const cipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), TAG);
  cipher.setAAD(Buffer.from(about), { plaintextLength: text.length });
  cipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return JSON.parse(Buffer.concat([cipher.update(text), cipher.final()]).toString()) as Fields;
  } catch {
    return undefined;
  }
}

/** The id of the key that opens a secret. */
export function keyIdOf(secret: string): string {
  return secret.slice(0, secret.indexOf('.'));
}

/** A record or list segment that says that it is sealed. */
interface SealedText {
  readonly fields: Fields;
  readonly note: SealedNote;
  /** Of the key that its secrets are sealed with; undefined if it has none. */
  readonly keyId: string | undefined;
}

/** Undefined if nothing in the text is sealed, or if no reader would accept it. */
export function sealedText(text: string): SealedText | undefined {
  if (!text.includes('"sealed":{') || checkSum(text) !== 'right') return undefined;
  const json = parseForeignJson(text);
  if ('invalid' in json || !isFields(json.value)) return undefined;
  const fields = json.value;
  const { sealed } = fields;
  if (!isFields(sealed) || typeof sealed['key'] !== 'string' || !Array.isArray(sealed['to']))
    return undefined;
  const note = { to: sealed['to'].map(String), key: sealed['key'] };
  const [secret] = [...holdersIn(fields)].flatMap(({ holder }) => holder['secret'] ?? []);
  return { fields, note, keyId: typeof secret === 'string' ? keyIdOf(secret) : undefined };
}

/** The text of a record with its secrets sealed. Those that were never opened stay as they are. */
export function sealSecrets({ fields }: SealedText, key: IndexKey | undefined): string {
  for (const { holder, names } of holdersIn(fields)) {
    const values = Object.fromEntries(names.map((name) => [name, holder[name]]));
    if (typeof holder['secret'] !== 'string') {
      if (key === undefined) throw new Error('a record is sealed, and its key is not known');
      holder['secret'] = sealValues(key, values, aboutOf(holder));
    }
    for (const name of names) holder[name] = null;
  }
  return summed(fields);
}

/**
 * The text as it was before {@link sealSecrets}. Undefined if a secret does not open. `key` undefined: with values that
 * say nothing, an md5 of zeros and the size of the object, and with the secrets.
 */
export function openSecrets({ fields }: SealedText, key: IndexKey | undefined): string | undefined {
  for (const { holder, names } of holdersIn(fields)) {
    const { secret } = holder;
    if (typeof secret !== 'string') return undefined;
    if (key === undefined) {
      for (const name of names) holder[name] = unknownValue(holder, name);
      continue;
    }
    const values = openValues(key, secret, aboutOf(holder));
    if (values === undefined) return undefined;
    for (const name of names) holder[name] = values[name];
    delete holder['secret'];
  }
  return summed(fields);
}

function unknownValue(holder: Fields, name: string): unknown {
  if (name === 'md5') return '0'.repeat(32);
  return name === 'size' && typeof holder['storedSize'] === 'number' ? holder['storedSize'] : 0;
}

function summed(fields: Fields): string {
  delete fields['sum'];
  return textWithSum(fields);
}

function aboutOf(holder: Fields): string {
  return String(holder['push'] ?? holder['path']);
}

interface Holder {
  readonly holder: Fields;
  readonly names: readonly string[];
}

const OF_FILE = ['md5', 'size'];
const OF_SEGMENT = ['first', 'size', 'md5'];
const OF_SIZE = ['size'];

/** All parts of a record, or of a list segment, that say something of the bytes before they were sealed. */
function* holdersIn({ results, partials, generations }: Fields): Generator<Holder> {
  for (const holder of [...listOf(results), ...listOf(partials)]) yield { holder, names: OF_FILE };
  for (const { members, companions, behind } of listOf(generations)) {
    for (const holder of listOf(members)) yield { holder, names: OF_FILE };
    for (const holder of listOf(behind)) yield { holder, names: OF_SIZE };
    for (const holder of listOf(companions)) {
      yield { holder, names: OF_SIZE };
      for (const segment of listOf(holder['segments'])) yield { holder: segment, names: OF_SEGMENT };
    }
  }
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : [];
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
