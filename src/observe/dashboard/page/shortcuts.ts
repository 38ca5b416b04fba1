// Shortcuts of the keyboard, and the list of them. They are quiet while somebody types.

import { element, find } from './dom.ts';

export interface Shortcut {
  readonly key: string;
  readonly text: string;
  readonly run: () => void;
}

export function addShortcuts(list: readonly Shortcut[]): void {
  const dialog = find<HTMLDialogElement>('shortcuts');
  const all = [...list, { key: '?', text: 'this list', run: () => dialog.showModal() }];
  for (const { key, text } of all) {
    const name = key === 'Escape' ? 'Esc' : key;
    find('shortcut-list').append(
      element('div', {}, element('dt', {}, element('kbd', { text: name })), element('dd', { text })),
    );
  }
  find('help').addEventListener('click', () => dialog.showModal());
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || isAsking()) return;
    const found = all.find(({ key }) => key === event.key);
    if (found === undefined) return;
    event.preventDefault();
    found.run();
  });
}

function isAsking(): boolean {
  return document.querySelector('dialog[open]') !== null;
}

function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement)
    return !['checkbox', 'range', 'radio', 'button'].includes(target.type);
  return target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}
