// The logs of all ranks, merged as they came. Lines in memory are shown at once; older ones come from the server while the reader
// scrolls up. What is shown has a limit, too: a browser does not lay out a million lines.

import type { LogLine } from '../messages.ts';
import { element, find, setText } from './dom.ts';
import { clock, count, rankName } from './figures.ts';
import type { History } from './history.ts';
import type { LogSource } from './log-source.ts';
import {
  isError,
  type LogFilter,
  maxShownCharacters,
  passes,
  splitMatches,
  stretchesOf,
} from './log-text.ts';

/** Shown at first, and added by one scroll to the top. */
const pageLines = 300;
/** Kept while following. */
const followLines = 1500;
/** With older ones. */
const maxLines = 6000;
const edgePx = 80;
const searchDelayMs = 200;

export class LogsView {
  readonly #lines = find('log-lines');
  readonly #rank = find<HTMLSelectElement>('log-rank');
  readonly #search = find<HTMLInputElement>('log-search');
  readonly #errors = find<HTMLInputElement>('log-errors');
  readonly #follow = find<HTMLInputElement>('log-follow');
  readonly #newer = find<HTMLButtonElement>('log-newer');
  readonly #older = find<HTMLButtonElement>('log-older');
  readonly #source: LogSource;
  #history: History | undefined;
  #beginning = 0;
  #ranks = '';
  #firstId: number | undefined;
  #lastId = Number.NEGATIVE_INFINITY;
  /** The newest line when the end was in view last. */
  #seenId = Number.NEGATIVE_INFINITY;
  #isLoading = false;
  #isComplete = false;
  #loadNote = '';
  #generation = 0;
  #searchTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(source: LogSource) {
    this.#source = source;
    this.#rank.addEventListener('change', () => this.#restart());
    this.#errors.addEventListener('change', () => this.#restart());
    this.#search.addEventListener('input', () => {
      clearTimeout(this.#searchTimer);
      this.#searchTimer = setTimeout(() => this.#restart(), searchDelayMs);
    });
    this.#follow.addEventListener('change', () => {
      if (this.#follow.checked) this.#toNewest();
    });
    this.#newer.addEventListener('click', () => {
      this.#follow.checked = true;
      this.#toNewest();
    });
    this.#older.addEventListener('click', () => void this.#loadOlder());
    this.#lines.addEventListener('scroll', () => this.#onScroll());
  }

  render(history: History): void {
    this.#history = history;
    this.#listRanks(history);
    if (history.beginnings !== this.#beginning) {
      this.#beginning = history.beginnings;
      this.#continue();
    } else this.#addNew();
  }

  /** Only this rank's lines. */
  showRank(rank: number): void {
    this.#rank.value = String(rank);
    this.#restart();
    find('logs').scrollIntoView({ block: 'start' });
    this.#lines.focus({ preventScroll: true });
  }

  focusSearch(): void {
    this.#search.focus();
    this.#search.select();
  }

  toggleFollow(): void {
    this.#follow.click();
  }

  toggleErrors(): void {
    this.#errors.click();
  }

  get #filter(): LogFilter {
    const { value } = this.#rank;
    return {
      rank: value === '' ? undefined : Number(value),
      search: this.#search.value,
      errorsOnly: this.#errors.checked,
    };
  }

  /** A connection begins with the newest lines: those that are shown stay if they are among them. */
  #continue(): void {
    const first = this.#history?.logs[0]?.id;
    const goesOn = this.#lines.childElementCount > 0 && first !== undefined && first <= this.#lastId + 1;
    if (goesOn) this.#addNew();
    else this.#restart();
  }

  #restart(): void {
    this.#generation += 1;
    this.#isLoading = false;
    this.#isComplete = false;
    this.#loadNote = '';
    this.#lines.replaceChildren();
    const { logs = [] } = this.#history ?? {};
    const filter = this.#filter;
    const found = logs.filter((line) => passes(line, filter)).slice(-pageLines);
    this.#firstId = found[0]?.id ?? logs[0]?.id;
    this.#lastId = logs.at(-1)?.id ?? Number.NEGATIVE_INFINITY;
    this.#lines.append(...found.map((line) => this.#line(line, filter.search)));
    this.#showDownload(filter.rank);
    this.#toEnd();
    this.#say();
    // A search may find more in what the server has kept.
    if (found.length < pageLines && this.#history !== undefined) void this.#loadOlder();
  }

  #addNew(): void {
    const { logs = [] } = this.#history ?? {};
    const filter = this.#filter;
    const added: LogLine[] = [];
    for (let at = logs.length - 1; at >= 0; at--) {
      const line = logs[at] as LogLine;
      if (line.id <= this.#lastId) break;
      if (passes(line, filter)) added.push(line);
    }
    if (added.length > 0) {
      added.reverse();
      if (this.#follow.checked) {
        this.#append(added.slice(-followLines), filter.search);
        this.#toEnd();
      } else if (this.#lines.childElementCount + added.length <= maxLines) {
        this.#append(added, filter.search, maxLines);
      } else {
        // No room below what is read: they come when the reader goes to the end.
        this.#say();
        return;
      }
    }
    this.#lastId = logs.at(-1)?.id ?? this.#lastId;
    this.#say();
  }

  #append(lines: readonly LogLine[], search: string, limit: number = followLines): void {
    this.#lines.append(...lines.map((line) => this.#line(line, search)));
    this.#firstId ??= lines[0]?.id;
    while (this.#lines.childElementCount > limit) {
      this.#lines.firstElementChild?.remove();
      this.#firstId = Number(this.#lines.firstElementChild?.getAttribute('data-id'));
      this.#isComplete = false;
    }
  }

  #toNewest(): void {
    const last = this.#history?.logs.at(-1)?.id;
    if (last === this.#lastId && this.#lines.childElementCount <= followLines) {
      this.#toEnd();
      this.#say();
    } else this.#restart();
  }

  #toEnd(): void {
    if (this.#follow.checked) this.#lines.scrollTop = this.#lines.scrollHeight;
  }

  #onScroll(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.#lines;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < edgePx / 4;
    if (this.#follow.checked !== isAtEnd && scrollHeight > clientHeight) {
      this.#follow.checked = isAtEnd;
      this.#say();
    }
    if (scrollTop < edgePx && scrollHeight > clientHeight) void this.#loadOlder();
  }

  /** From memory as long as there are, and then from the server. */
  async #loadOlder(): Promise<void> {
    if (this.#isLoading || this.#isComplete || this.#history === undefined) return;
    if (this.#lines.childElementCount + pageLines > maxLines) return this.#say();
    const generation = this.#generation;
    const filter = this.#filter;
    this.#isLoading = true;
    this.#say();
    const { lines, oldestId, hasMore, problem } = await this.#source.before(
      this.#firstId,
      filter,
      this.#history.logs,
      pageLines,
    );
    if (generation !== this.#generation) return;
    this.#isLoading = false;
    this.#isComplete = !hasMore;
    this.#firstId = oldestId ?? this.#firstId;
    this.#loadNote = problem ?? '';
    if (lines.length > 0) {
      const fromEnd = this.#lines.scrollHeight - this.#lines.scrollTop;
      this.#lines.prepend(...lines.map((line) => this.#line(line, filter.search)));
      this.#lines.scrollTop = this.#lines.scrollHeight - fromEnd;
      this.#toEnd();
    }
    this.#say();
  }

  #line(line: LogLine, search: string): HTMLElement {
    const { id, at, rank, stream, text } = line;
    const cut = text.length - maxShownCharacters;
    const shown = cut > 0 ? text.slice(0, maxShownCharacters) : text;
    const words = element('span', { class: 'text' });
    for (const { text: part, style } of stretchesOf(shown)) {
      const pieces = splitMatches(part, search).map((piece, i) =>
        i % 2 === 1 ? element('mark', { text: piece }) : document.createTextNode(piece),
      );
      if (style === '') words.append(...pieces);
      else words.append(element('span', { class: style }, ...pieces));
    }
    if (cut > 0) words.append(element('span', { class: 'soft', text: ` … ${count(cut)} more characters` }));
    const kind = isError(line) ? 'line error' : stream === 'stderr' ? 'line stderr' : 'line';
    return element(
      'div',
      { class: kind, attributes: { 'data-id': String(id) } },
      element('time', { text: clock(at) }),
      element('span', {
        class: 'from',
        text: rank < 0 ? 'launcher' : String(rank),
        title: `${rankName(rank)}, ${stream}`,
      }),
      words,
    );
  }

  #listRanks({ latest, logs }: History): void {
    const ranks = new Set(latest?.ranks.map(({ rank }) => rank));
    if (logs.some(({ rank }) => rank < 0)) ranks.add(-1);
    const known = [...ranks].sort((a, b) => a - b);
    if (known.join() === this.#ranks) return;
    this.#ranks = known.join();
    const { value } = this.#rank;
    const options = known.map((rank) =>
      element('option', { text: rankName(rank), attributes: { value: String(rank) } }),
    );
    this.#rank.replaceChildren(element('option', { text: 'all', attributes: { value: '' } }), ...options);
    this.#rank.value = known.includes(Number(value)) && value !== '' ? value : '';
  }

  #showDownload(rank: number | undefined): void {
    const link = find<HTMLAnchorElement>('log-download');
    const href = rank === undefined ? undefined : this.#source.download(rank);
    link.hidden = href === undefined;
    if (href === undefined) return;
    link.href = href;
    link.download = rank === undefined || rank < 0 ? 'launcher.txt' : `rank-${rank}.txt`;
  }

  get #canScroll(): boolean {
    return this.#lines.scrollHeight > this.#lines.clientHeight;
  }

  #countUnseen(): number {
    const { logs = [] } = this.#history ?? {};
    if (this.#follow.checked) this.#seenId = logs.at(-1)?.id ?? this.#seenId;
    const filter = this.#filter;
    let unseen = 0;
    for (let at = logs.length - 1; at >= 0; at--) {
      const line = logs[at] as LogLine;
      if (line.id <= this.#seenId) break;
      if (passes(line, filter)) unseen += 1;
    }
    return unseen;
  }

  #say(): void {
    const shown = this.#lines.childElementCount;
    const missing = this.#history?.logsMissing;
    const hasNone = shown === 0 && (this.#history?.logs.length ?? 0) === 0;
    this.#lines.classList.toggle('none', hasNone);
    const lines = hasNone ? 'No output yet.' : `${count(shown)} ${shown === 1 ? 'line' : 'lines'}`;
    const parts = [shown === 0 && missing !== undefined ? missing : lines];
    if (this.#isLoading) parts.push('loading older ones …');
    else if (this.#loadNote !== '') parts.push(this.#loadNote);
    else if (shown + pageLines > maxLines) parts.push('for older ones, search or download');
    else if (!this.#isComplete && this.#canScroll) parts.push('scroll up for older ones');
    this.#older.hidden = this.#isLoading || this.#isComplete || this.#canScroll || missing !== undefined;
    setText(find('log-note'), parts.join(' · '));
    const unseen = this.#countUnseen();
    this.#newer.hidden = unseen === 0;
    setText(this.#newer, `${count(unseen)} new ${unseen === 1 ? 'line' : 'lines'} ↓`);
  }
}
