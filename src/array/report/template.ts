// The page around its data. It is a separate file of the program that contains everything the page needs. The page may
// not use a network, and inserted names must never become markup.
import { createHash } from 'node:crypto';
import { showJson } from '../../model/path.ts';

/** The hash of a UTF-8 text as `'sha256-…'` of a Content-Security-Policy (CSP level 3). */
function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** Allows only this style and this script; nothing else may be loaded, sent or run. */
function policyOf(style: string, script: string): string {
  return [
    "default-src 'none'",
    `style-src ${hashSource(style)}`,
    `script-src ${hashSource(script)}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

/** The content of REPORT_PAGE. */
interface Page {
  readonly markup: string;
  readonly style: string;
  readonly script: string;
}

export interface PageParts {
  /** The part before the entries, in the format of packed.ts. */
  readonly start: string;
  /** The part after the entries, with the head. */
  end(head: string): string;
}

export function pageParts(taskName: string): PageParts {
  const { markup, style, script } = JSON.parse(REPORT_PAGE) as Page;
  return {
    start: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policyOf(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${escaped(taskName)}: report of capture</title>
<style>${style}</style>
</head>
<body>
${markup.trim()}
<script type="application/octet-stream" id="entries">`,
    end: (head) => `</script>
<script type="application/json" id="head">${head}</script>
<script type="module">${script}</script>
</body>
</html>
`,
  };
}

/**
 * JSON that stays data within a script element. `</script` would end the element, and `<!--` would change how it is
 * parsed (HTML, "Restrictions for contents of script elements").
 */
export function jsonInPage(value: unknown): string {
  return showJson(value).replaceAll('<', String.raw`\u003c`);
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
