// Elements of the page. All text is set as text; data is never parsed as HTML.

type Child = Node | string | undefined;

export interface Attributes {
  readonly class?: string;
  readonly [name: string]: string | undefined;
}

export function el<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined) made.setAttribute(key, value);
  for (const child of children) if (child !== undefined) made.append(child);
  return made;
}

/** An element of page.html. */
export function byId<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

/** A square of this colour. It is decoration: the word is next to it. */
export function dot(colour: string, kind: 'solid' | 'hatched' = 'solid'): HTMLElement {
  const made = el('span', { class: `dot ${kind}`, 'aria-hidden': 'true' });
  made.style.setProperty('--colour', `var(--${colour})`);
  return made;
}

/** The current value of a variable of style.css, light or dark. */
export function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function button(text: string, onClick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = el('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', onClick);
  return made;
}

export interface Cell {
  readonly content: string | Node;
  readonly class?: string | undefined;
}

/** With more columns, a phone shows the cells of a row below one another, each with its head. */
const NARROW = 2;

/** A table with a header of words. */
export function table(
  caption: string,
  heads: readonly (Cell | string)[],
  rows: readonly (readonly (Cell | string)[])[],
): HTMLTableElement {
  const cell = (name: 'th' | 'td', one: Cell | string, attributes: Attributes): HTMLElement => {
    const { content, class: kind } = typeof one === 'string' ? { content: one } : one;
    return el(name, { ...attributes, class: kind }, content);
  };
  const top = heads.map((head) => cell('th', head, { scope: 'col' }));
  const below = (row: readonly (Cell | string)[]): readonly HTMLElement[] =>
    row.map((one, at) => cell('td', one, { 'data-head': top[at]?.textContent }));
  return el(
    'table',
    { class: heads.length > NARROW ? 'wide' : undefined },
    el('caption', {}, caption),
    el('thead', {}, el('tr', {}, ...top)),
    el('tbody', {}, ...rows.map((row) => el('tr', {}, ...below(row)))),
  );
}

export function number(text: string): Cell {
  return { content: text, class: 'number' };
}
