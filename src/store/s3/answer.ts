// Reads what a server has answered: text, S3's XML, refusals. A good status proves nothing: what S3 promises for it must
// be there.
import type { IncomingMessage } from 'node:http';
import { parseXML } from '@aws-sdk/xml-builder';
import type { Answer } from './transport.ts';

/** Far above a page of 1,000 keys that are all escaped; what is longer is not S3. */
const LONGEST_BYTES = 16 * 2 ** 20;

/** Elements, their ends and attributes: a page of 1,000 keys has some 25,000. */
const MOST_MARKS = 100_000;
/** Characters without any of these: a key has 3 KiB at most, a token some more. */
const LONGEST_TEXT = 64 * 1024;

/** A good status with an answer that lacks what S3 promises for it: nobody knows what took place. */
export class NotFromS3 extends Error {
  constructor(lacks: string) {
    super(`the answer has no ${lacks}`);
    this.name = 'NotFromS3';
  }
}

/** The server's own no; its name is S3's error code, or `Unknown` where the answer has none (HEAD, load balancers). */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, code: string) {
    super(`http ${status}`);
    this.name = code;
    this.status = status;
  }
}

/** What the answer has of a field that S3 always sends; throws {@link NotFromS3} when it is missing or empty. */
export function promised<T>(value: T | undefined, name: string): T {
  if (value === undefined || value === '') throw new NotFromS3(name);
  return value;
}

/** That of a multipart upload has the number of its parts behind a dash. */
export const ETAG_OF_ONE_PUT = /^"?([0-9a-f]{32})"?$/;

/** The ETag that S3 names for all that it has stored. */
export function etagOf({ headers }: Answer): string {
  return promised(headers.etag, 'ETag');
}

/** An ETag as it names a state: headers have quotes around it, and some documents of Ceph RGW have none. */
export function tagOf(etag: string): string {
  return etag.replace(/^"(.*)"$/, '$1');
}

/** An element of an answer: what it holds by name. */
export interface Xml {
  /** Undefined when there is none, and when it holds elements. */
  text(name: string): string | undefined;
  all(name: string): readonly Xml[];
}

/** The root of an answer that is a document. An error may stand in a good one (CompleteMultipartUpload, CopyObject). */
export async function xmlOf(answer: Answer): Promise<Xml> {
  const root = rootOf(await textOf(answer.body));
  if (root === undefined) throw new NotFromS3('document');
  if (root.name === 'Error') throw new Refusal(answer.status, root.text('Code') ?? UNKNOWN);
  return root;
}

/** Takes the rest of an answer that says nothing more, so that its socket can be used again. */
export function drained({ body }: Answer): Promise<void> {
  return taken(body, () => undefined);
}

const UNKNOWN = 'Unknown';

/** What an answer with a bad status says. */
export async function refusalOf({ status, body }: Answer): Promise<Refusal> {
  const text = await textOf(body).catch(() => '');
  return new Refusal(status, rootOf(text)?.text('Code') ?? UNKNOWN);
}

/** All of an answer. */
export async function textOf(body: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  await taken(body, (chunk) => chunks.push(chunk));
  return Buffer.concat(chunks).toString();
}

/** Without an encoding: most answers are empty, and Node makes a decoder for each that has one. */
function taken(body: IncomingMessage, take: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let bytes = 0;
    body.on('data', (chunk: Buffer) => {
      take(chunk);
      bytes += chunk.length;
      if (bytes > LONGEST_BYTES) body.destroy(new NotFromS3('end'));
    });
    body.once('end', resolve);
    body.once('error', reject);
  });
}

function rootOf(text: string): (Xml & { readonly name: string }) | undefined {
  if (!isShort(text)) return undefined;
  try {
    const [[name, content] = ['']] = Object.entries(parseXML(text) as Record<string, unknown>);
    return { name, ...xml(content) };
  } catch {
    return undefined;
  }
}

/**
 * The parser takes some 100 bytes for each element, and for each character of a text while it reads that; a document type
 * makes it go through all of the document.
 */
function isShort(text: string): boolean {
  let marks = 0;
  let last = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char !== '<' && char !== '=') continue;
    marks += 1;
    if (marks > MOST_MARKS || at - last > LONGEST_TEXT) return false;
    last = at;
  }
  return text.length - last <= LONGEST_TEXT && (text.match(/<!doctype/gi)?.length ?? 0) <= 1;
}

/** The parser gives a text for an element without elements, else an object: one of a name as it is, several as a list. */
function xml(content: unknown): Xml {
  const all = (name: string): readonly unknown[] => {
    if (typeof content !== 'object' || content === null || !Object.hasOwn(content, name)) return [];
    return [Reflect.get(content, name)].flat();
  };
  return {
    text: (name) => {
      const [value] = all(name);
      return typeof value === 'string' ? value : undefined;
    },
    all: (name) => all(name).map(xml),
  };
}
