// Parses answers of a server: text, S3's XML, and errors. A status of 200 proves nothing: the content that S3 promises
// for it must be there.
import { parseXML } from '@aws-sdk/xml-builder';
import { NotFromStore, promised, textOf } from '../http/body.ts';
import type { Answer } from '../http/transport.ts';

/** Elements, end tags and attributes: a page of 1,000 keys has about 25,000. */
const MOST_MARKS = 100_000;
/** Characters without any markup: a key has at most 3 KiB, a token somewhat more. */
const LONGEST_TEXT = 64 * 1024;

/** An error of the server. Its name is S3's error code, or `Unknown` if the answer has none (HEAD, load balancers). */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, code: string) {
    super(`http ${status}`);
    this.name = code;
    this.status = status;
  }
}

/** The ETag of a multipart upload ends with a dash and the number of its parts, so it does not match. */
export const ETAG_OF_ONE_PUT = /^"?([0-9a-f]{32})"?$/;

/** The ETag that S3 returns for everything it stores. */
export function etagOf({ headers }: Answer): string {
  return promised(headers.etag, 'ETag');
}

/** An ETag as a tag: headers have quotes around it, but some documents of Ceph RGW have none. */
export function tagOf(etag: string): string {
  return etag.replace(/^"(.*)"$/, '$1');
}

/** An element of an answer; its content is found by name. */
export interface Xml {
  /** Undefined if there is no such element, or if it contains elements. */
  text(name: string): string | undefined;
  all(name: string): readonly Xml[];
}

/** The root element of an answer. A successful status may contain an error (CompleteMultipartUpload, CopyObject). */
export async function xmlOf(answer: Answer): Promise<Xml> {
  const root = rootOf(await textOf(answer));
  if (root === undefined) throw new NotFromStore('document');
  if (root.name === 'Error') throw new Refusal(answer.status, root.text('Code') ?? UNKNOWN);
  return root;
}

const UNKNOWN = 'Unknown';
/** As the class of answers with a good status that are not of S3. */
const FOREIGN = 'NotFromStore';

/** The error in an answer with a bad status. A gateway's 404, a page for people, says nothing about an object. */
export async function refusalOf(answer: Answer): Promise<Refusal> {
  const text = await textOf(answer).catch(() => '');
  const code = rootOf(text)?.text('Code');
  const isPage = code === undefined && /^text\/html\b/i.test(answer.headers['content-type'] ?? '');
  return new Refusal(answer.status, isPage && answer.status === 404 ? FOREIGN : (code ?? UNKNOWN));
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
 * Limits the parser's work. It takes about 100 bytes for each element, and for each character of a text while it reads
 * the text. A document type makes it scan the whole document.
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

/**
 * The parser returns text for an element without elements, and otherwise an object. In it, a repeated name becomes a
 * list.
 */
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
