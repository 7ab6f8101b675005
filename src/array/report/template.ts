// The page around its data: a file of the program of its own, for it holds all that the page needs. Nothing in the page
// may reach a network, and no name that is put into it may become a part of it.
import { createHash } from 'node:crypto';
import { showJson } from '../../model/path.ts';

/** A text in UTF-8, as `'sha256-…'` of a Content-Security-Policy (CSP level 3). */
function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** Nothing may be loaded, sent or run but this style and this script. */
function policyOf(style: string, script: string): string {
  return [
    "default-src 'none'",
    `style-src ${hashSource(style)}`,
    `script-src ${hashSource(script)}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

export interface PageParts {
  /** What stands before the entries, as of packed.ts. */
  readonly start: string;
  /** What follows them, with the head. */
  end(head: string): string;
}

export function pageParts(taskName: string): PageParts {
  const { markup, style, script } = REPORT_PAGE;
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
 * JSON that stays data inside of a script element: that ends at `</script`, and `<!--` changes how it is read (HTML,
 * "Restrictions for contents of script elements").
 */
export function jsonInPage(value: unknown): string {
  return showJson(value).replaceAll('<', String.raw`\u003c`);
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
