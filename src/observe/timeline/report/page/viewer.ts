// The timeline of the report: what is visible, chosen and found, and how keys, pointers and buttons change it. One picture is drawn for
// each frame in which something changed.

import type { TimelineData } from '../timeline-data.ts';
import { inTime } from '../units.ts';
import { type Palette, readPalette } from './colours.ts';
import { factsOf } from './facts.ts';
import { listenForGestures } from './gestures.ts';
import { commandOf } from './keys.ts';
import { boxOf, type Layout, layOut, rowAt } from './layout.ts';
import { paintOverview, type Shares, sharesOver } from './overview.ts';
import { axisHeight, paint, shownName } from './paint.ts';
import { durationOf, firstEndingAfter, fromOf, nameOf, type Place, type RankRows, rowsOf } from './rows.ts';
import { type Found, firstFrom, search } from './search.ts';
import { around, moved, type Span, withinEnd, zoomed } from './span.ts';

const gutterWidth = 148;
/** Narrower pages have names above the rows. */
const minWidthForGutter = 640;
const minHeight = 160;
const zoomStep = 1.5;
const panStep = 0.15;
const scrollStep = 60;
const hintMs = 2500;

export class Viewer {
  readonly #data: TimelineData;
  readonly #ranks: readonly RankRows[];
  readonly #layout: Layout;
  readonly #failed: Uint8Array;
  readonly #shares: Shares;
  readonly #root = elementOf('viewer');
  readonly #picture = elementOf('picture') as HTMLCanvasElement;
  readonly #overview = elementOf('overview') as HTMLCanvasElement;
  readonly #tip = elementOf('tip');
  readonly #input = elementOf('search') as HTMLInputElement;
  #palette: Palette;
  #span: Span;
  #scrolled = 0;
  #width = 0;
  #height = 0;
  #selected: Place | undefined;
  #related: readonly Place[] = [];
  #found: Found | undefined;
  #foundAt = -1;
  #isDue = false;
  #hint: ReturnType<typeof setTimeout> | undefined;

  constructor(data: TimelineData) {
    this.#data = data;
    this.#ranks = rowsOf(data);
    this.#layout = layOut(this.#ranks);
    this.#failed = Uint8Array.from([{}, ...data.details], (each) => Number('error' in each));
    this.#shares = sharesOver(this.#ranks, data.endUs, data.names);
    this.#span = withinEnd(data.view, data.endUs);
    this.#palette = readPalette(this.#root);
  }

  start(): void {
    this.#root.hidden = false;
    new ResizeObserver(() => this.#resize()).observe(this.#root);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.#palette = readPalette(this.#root);
      this.#draw();
    });
    this.#listenToButtons();
    this.#listenToKeys();
    this.#listenToPointers();
    this.#resize();
  }

  get #gutter(): number {
    return this.#width >= minWidthForGutter ? gutterWidth : 0;
  }

  get #isFull(): boolean {
    return this.#root.classList.contains('full');
  }

  get #maxScroll(): number {
    return Math.max(0, this.#layout.height + axisHeight - this.#height);
  }

  #resize(): void {
    this.#width = this.#root.clientWidth;
    const wanted = this.#layout.height + axisHeight;
    const others = this.#root.scrollHeight - this.#picture.offsetHeight;
    const room = this.#isFull ? this.#root.clientHeight - others : window.innerHeight * 0.6;
    this.#height = Math.round(
      this.#isFull ? Math.max(minHeight, room) : Math.max(minHeight, Math.min(wanted, room)),
    );
    for (const [canvas, height] of [
      [this.#picture, this.#height],
      [this.#overview, this.#overview.clientHeight],
    ] as const) {
      const scale = window.devicePixelRatio || 1;
      if (canvas === this.#picture) canvas.style.height = `${height}px`;
      canvas.width = Math.round(this.#width * scale);
      canvas.height = Math.round(height * scale);
    }
    this.#scroll(0);
    this.#draw();
  }

  #draw(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#drawNow();
    });
  }

  #drawNow(): void {
    const scale = window.devicePixelRatio || 1;
    const shared = { width: this.#width, gutter: this.#gutter, palette: this.#palette, span: this.#span };
    const picture = this.#picture.getContext('2d');
    const overview = this.#overview.getContext('2d');
    if (picture === null || overview === null || this.#width === 0) return;
    picture.setTransform(scale, 0, 0, scale, 0, 0);
    paint(picture, {
      ...shared,
      height: this.#height,
      scrolled: this.#scrolled,
      layout: this.#layout,
      names: this.#data.names,
      failed: this.#failed,
      found: this.#found,
      selected: this.#selected,
      related: this.#related,
    });
    overview.setTransform(scale, 0, 0, scale, 0, 0);
    const { endUs } = this.#data;
    paintOverview(overview, { ...shared, height: this.#overview.clientHeight, shares: this.#shares, endUs });
    const { fromUs, toUs } = this.#span;
    elementOf('shown').textContent = `${inTime(fromUs)} to ${inTime(toUs)} (${inTime(toUs - fromUs)})`;
  }

  #show(span: Span): void {
    this.#span = withinEnd(span, this.#data.endUs);
    this.#draw();
  }

  /** `factor` < 1 comes nearer. */
  #zoom(factor: number, x = (this.#width + this.#gutter) / 2): void {
    const share = (x - this.#gutter) / (this.#width - this.#gutter);
    this.#show(zoomed(this.#span, factor, Math.min(1, Math.max(0, share)), this.#data.endUs));
  }

  #pan(dx: number): void {
    this.#show(moved(this.#span, -dx / (this.#width - this.#gutter), this.#data.endUs));
  }

  #scroll(by: number): void {
    this.#scrolled = Math.min(Math.max(0, this.#scrolled + by), this.#maxScroll);
    this.#draw();
  }

  /** Brings a slice into the picture and chooses it. */
  #goTo(place: Place): void {
    this.#show(around(this.#span, fromOf(place), fromOf(place) + durationOf(place), this.#data.endUs));
    const box = boxOf(this.#layout, place.row);
    const visible = this.#height - axisHeight;
    if (box !== undefined && (box.top < this.#scrolled || box.top + box.height > this.#scrolled + visible))
      this.#scroll(box.top - visible / 2 - this.#scrolled);
    this.#choose(place);
  }

  #choose(place: Place | undefined): void {
    this.#selected = place;
    this.#related = [];
    const panel = elementOf('chosen');
    panel.replaceChildren();
    panel.hidden = place === undefined;
    if (place !== undefined) {
      const { element, related } = factsOf(this.#data, this.#ranks, place, (other) => this.#goTo(other));
      this.#related = related;
      panel.append(element);
    }
    if (this.#isFull) this.#resize();
    this.#draw();
  }

  /** The slice there; on a row of very short slices, the nearest within a few pixels. */
  #placeAt(x: number, y: number): Place | undefined {
    if (y < axisHeight || x < this.#gutter) return undefined;
    const row = rowAt(this.#layout, y - axisHeight + this.#scrolled);
    if (row === undefined) return undefined;
    const perPixel = (this.#span.toUs - this.#span.fromUs) / (this.#width - this.#gutter);
    const us = this.#span.fromUs + (x - this.#gutter) * perPixel;
    const at = firstEndingAfter(row, us - 3 * perPixel);
    if (at >= row.from.length || (row.from[at] as number) > us + 3 * perPixel) return undefined;
    const next = at + 1;
    const isInNext =
      (row.to[at] as number) <= us && next < row.from.length && (row.from[next] as number) <= us;
    return { row, at: isInNext ? next : at };
  }

  #search(text: string): void {
    this.#found = search(this.#data, this.#ranks, text);
    this.#foundAt = -1;
    this.#tellFound();
    this.#draw();
  }

  #goToFound(direction: 1 | -1): void {
    const { places = [] } = this.#found ?? {};
    const { length } = places;
    if (this.#found === undefined || length === 0) return;
    this.#foundAt =
      this.#foundAt < 0
        ? firstFrom(this.#found, this.#span.fromUs)
        : (this.#foundAt + direction + length) % length;
    this.#tellFound();
    this.#goTo(places[this.#foundAt] as Place);
  }

  #tellFound(): void {
    const count = this.#found?.places.length ?? 0;
    const said =
      this.#found === undefined
        ? ''
        : count === 0
          ? 'none'
          : this.#foundAt < 0
            ? `${count} found`
            : `${this.#foundAt + 1} of ${count}`;
    elementOf('found').textContent = said;
    for (const name of ['previous', 'next']) (elementOf(name) as HTMLButtonElement).disabled = count === 0;
  }

  #toggleFull(): void {
    this.#root.classList.toggle('full');
    elementOf('full').setAttribute('aria-pressed', String(this.#isFull));
    this.#resize();
    this.#picture.focus({ preventScroll: true });
  }

  #listenToButtons(): void {
    const on = (name: string, run: () => void) => elementOf(name).addEventListener('click', run);
    on('nearer', () => this.#zoom(1 / zoomStep));
    on('farther', () => this.#zoom(zoomStep));
    on('step', () => this.#show(this.#data.step ?? this.#span));
    on('all', () => this.#show({ fromUs: 0, toUs: this.#data.endUs }));
    on('full', () => this.#toggleFull());
    on('previous', () => this.#goToFound(-1));
    on('next', () => this.#goToFound(1));
    elementOf('step').hidden = this.#data.step === undefined;
    this.#input.addEventListener('input', () => this.#search(this.#input.value));
    this.#input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        event.preventDefault();
        this.#goToFound(event.shiftKey ? -1 : 1);
      } else if (event.key === 'Escape') {
        this.#input.value = '';
        this.#search('');
        this.#picture.focus({ preventScroll: true });
      }
      event.stopPropagation();
    });
  }

  #listenToKeys(): void {
    this.#root.addEventListener('keydown', (event) => {
      const command = commandOf(event);
      if (command === undefined || !this.#obey(command)) return;
      event.preventDefault();
    });
  }

  /** False: nothing to do, so the browser may do what it does with the key. */
  #obey(command: NonNullable<ReturnType<typeof commandOf>>): boolean {
    const { endUs, step } = this.#data;
    switch (command) {
      case 'left':
      case 'right':
        this.#show(moved(this.#span, command === 'left' ? -panStep : panStep, endUs));
        return true;
      case 'up':
      case 'down':
        if (this.#maxScroll === 0) return false;
        this.#scroll(command === 'up' ? -scrollStep : scrollStep);
        return true;
      case 'nearer':
      case 'farther':
        this.#zoom(command === 'nearer' ? 1 / zoomStep : zoomStep);
        return true;
      case 'all':
        this.#show({ fromUs: 0, toUs: endUs });
        return true;
      case 'step':
        this.#show(step ?? this.#span);
        return true;
      case 'start':
        this.#show({ fromUs: 0, toUs: this.#span.toUs - this.#span.fromUs });
        return true;
      case 'end':
        this.#show({ fromUs: endUs - (this.#span.toUs - this.#span.fromUs), toUs: endUs });
        return true;
      case 'search':
        this.#input.focus();
        this.#input.select();
        return true;
      case 'next':
      case 'previous':
        this.#goToFound(command === 'next' ? 1 : -1);
        return true;
      case 'later':
      case 'earlier':
        this.#chooseNeighbour(command === 'later' ? 1 : -1);
        return true;
      case 'full':
        this.#toggleFull();
        return true;
      case 'leave':
        if (this.#selected !== undefined) this.#choose(undefined);
        else if (this.#isFull) this.#toggleFull();
        else return false;
        return true;
      default:
        return command satisfies never;
    }
  }

  /** Of the chosen slice, in its row. Without one, the first visible collective. */
  #chooseNeighbour(direction: 1 | -1): void {
    if (this.#selected === undefined) {
      const rows = this.#ranks.flatMap(({ rows: own }) => own);
      const row = rows.find(({ kind }) => kind === 'operation') ?? rows[0];
      if (row === undefined) return;
      const at = Math.min(firstEndingAfter(row, this.#span.fromUs), row.from.length - 1);
      this.#goTo({ row, at });
      return;
    }
    const { row, at } = this.#selected;
    const next = Math.min(Math.max(at + direction, 0), row.from.length - 1);
    this.#goTo({ row, at: next });
  }

  #listenToPointers(): void {
    listenForGestures(this.#picture, {
      zoom: (factor, x) => this.#zoom(factor, x),
      pan: (dx, dy) => {
        this.#pan(dx);
        if (dy !== 0) this.#scroll(-dy);
      },
      tap: (x, y) => this.#choose(this.#placeAt(x, y)),
      doubleTap: (x, y) => {
        const place = this.#placeAt(x, y);
        if (place === undefined) return;
        const margin = durationOf(place) * 0.1;
        this.#show({ fromUs: fromOf(place) - margin, toUs: fromOf(place) + durationOf(place) + margin });
      },
      hover: (x, y) => this.#hover(x, y),
      leave: () => this.#tipAt(undefined, 0, 0),
      refuseWheel: () => this.#tellHint(),
      takesWheel: () => this.#isFull || document.activeElement === this.#picture,
    });
    const jump = (event: PointerEvent) => {
      const { left } = this.#overview.getBoundingClientRect();
      const share = (event.clientX - left - this.#gutter) / (this.#width - this.#gutter);
      const half = (this.#span.toUs - this.#span.fromUs) / 2;
      const middle = Math.min(1, Math.max(0, share)) * this.#data.endUs;
      this.#show({ fromUs: middle - half, toUs: middle + half });
    };
    this.#overview.addEventListener('pointerdown', (event) => {
      this.#overview.setPointerCapture(event.pointerId);
      jump(event);
    });
    this.#overview.addEventListener('pointermove', (event) => {
      if (this.#overview.hasPointerCapture(event.pointerId)) jump(event);
    });
  }

  #hover(x: number, y: number): void {
    const place = this.#placeAt(x, y);
    this.#picture.classList.toggle('over', place !== undefined);
    if (place === undefined) this.#tipAt(undefined, 0, 0);
    else {
      const name = shownName(place.row, nameOf(this.#data, place));
      const took = durationOf(place) === 0 ? '' : `, ${inTime(durationOf(place))}`;
      this.#tipAt(`${name}${took}`, x, y);
    }
  }

  #tipAt(text: string | undefined, x: number, y: number): void {
    this.#tip.hidden = text === undefined;
    if (text === undefined) return;
    this.#tip.textContent = text;
    const left = Math.min(x + 12, this.#width - this.#tip.offsetWidth - 4);
    this.#tip.style.left = `${Math.max(4, left)}px`;
    this.#tip.style.top = `${this.#picture.offsetTop + y + 18}px`;
  }

  #tellHint(): void {
    const hint = elementOf('hint');
    hint.classList.add('shown');
    clearTimeout(this.#hint);
    this.#hint = setTimeout(() => hint.classList.remove('shown'), hintMs);
  }
}

function elementOf(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page lacks #${id}`);
  return element;
}
