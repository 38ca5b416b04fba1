// What happened, the newest first: stalls, stragglers, lost ranks, resets, checkpoints. A report folds out, such as a flight report; a
// link opens a timeline's picture.

import type { JobEvent } from '../messages.ts';
import { element, find, setChildren, setText } from './dom.ts';
import { clock, rankName } from './figures.ts';
import { toneSigns } from './headline.ts';
import type { History } from './history.ts';
import { safeHref } from './links.ts';
import type { Selection } from './selection.ts';

const kindWords: Readonly<Record<JobEvent['kind'], string>> = {
  stall: 'stall',
  straggler: 'slow rank',
  lost: 'lost rank',
  reset: 'reset',
  checkpoint: 'checkpoint',
  memory: 'memory',
  data: 'data',
  timeline: 'timeline',
  end: 'end',
};

export class EventsView {
  readonly #selection: Selection;
  readonly #known = new Map<number, { readonly event: JobEvent; readonly box: HTMLElement }>();

  constructor(selection: Selection) {
    this.#selection = selection;
  }

  render({ news }: History): void {
    find('no-events').hidden = news.length > 0;
    find('events-list').hidden = news.length === 0;
    setText(find('events-count'), news.length === 0 ? '' : String(news.length));
    const boxes = news.map((event) => this.#box(event)).reverse();
    setChildren(find('events-list'), boxes);
    const ids = new Set(news.map(({ id }) => id));
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id);
  }

  #box(event: JobEvent): HTMLElement {
    const known = this.#known.get(event.id);
    // A reconnect brings the same events again: what is folded out stays so.
    if (known !== undefined && JSON.stringify(known.event) === JSON.stringify(event)) return known.box;
    const box = this.#create(event);
    this.#known.set(event.id, { event, box });
    return box;
  }

  #create({ at, kind, tone, text, rank, report, href }: JobEvent): HTMLElement {
    const sign = element('span', {
      class: 'tone',
      text: toneSigns[tone],
      attributes: { 'aria-hidden': 'true' },
    });
    const head = element(
      'div',
      { class: 'event-head' },
      sign,
      element('b', { text: kindWords[kind] ?? kind }),
      element('time', { text: clock(at), attributes: { datetime: new Date(at).toISOString() } }),
    );
    if (rank !== undefined) {
      const button = element('button', {
        class: 'plain',
        text: rankName(rank),
        attributes: { type: 'button' },
      });
      button.addEventListener('click', () => this.#selection.set(rank));
      head.append(button);
    }
    const box = element(
      'li',
      { class: 'event', attributes: { 'data-tone': tone } },
      head,
      element('p', { text }),
    );
    const target = href === undefined ? undefined : safeHref(href);
    if (target !== undefined) {
      box.append(
        element('a', {
          text: 'Open it',
          attributes: { href: target, target: '_blank', rel: 'noopener noreferrer' },
        }),
      );
    }
    if (report !== undefined) {
      box.append(
        element('details', {}, element('summary', { text: 'Report' }), element('pre', { text: report })),
      );
    }
    return box;
  }
}
