// What the test server says: S3's XML documents and errors.

/** An error answer, thrown anywhere below the request. */
export class S3Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message = code) {
    super(message);
    this.name = 'S3Refusal';
    this.status = status;
    this.code = code;
  }
}

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export function errorXml(code: string, message = code): string {
  return document('Error', tag('Code', code) + tag('Message', message) + tag('RequestId', 'test'));
}

export function document(name: string, content: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${name}>${content}</${name}>`;
}

export function tag(name: string, value: string | number | boolean): string {
  return `<${name}>${escapeXml(String(value))}</${name}>`;
}

function escapeXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** The text of every `<name>` in a request body. */
export function textsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'))].map((match) =>
    unescapeXml(match[1] ?? ''),
  );
}

function unescapeXml(text: string): string {
  return text
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#x27;', "'")
    .replaceAll('&amp;', '&');
}

/** `encoding-type=url`: as S3 does it, with `+` for a space. */
export function urlEncode(key: string): string {
  return encodeURIComponent(key).replaceAll('%2F', '/').replaceAll('%20', '+');
}

/** A good answer with a document. */
export function xml(name: string, content: string): Answer {
  return { status: 200, headers: { 'content-type': 'application/xml' }, body: document(name, content) };
}
