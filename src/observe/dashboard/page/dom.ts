// Making and changing elements. Text always goes through textContent: it may come from a rank, and a rank may print markup.

export interface ElementOptions {
  readonly class?: string | undefined;
  readonly text?: string | undefined;
  readonly title?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  options: ElementOptions = {},
  ...children: readonly Node[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (options.class !== undefined) made.className = options.class;
  if (options.text !== undefined) made.textContent = options.text;
  if (options.title !== undefined) made.title = options.title;
  for (const [name, value] of Object.entries(options.attributes ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** An element of index.html. */
export function find<T extends Element = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no element with the id ${id}`);
  return found as unknown as T;
}

/** Leaves an element alone that has this text already: it may be selected. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

export function setTitle(target: HTMLElement, title: string): void {
  if (target.title !== title) target.title = title;
}

/** Makes the children of a parent these, in this order, and moves none that is in its place. */
export function setChildren(parent: Element, children: readonly Element[]): void {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild?.remove();
}
