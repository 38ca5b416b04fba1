// Draws the timeline on a canvas: an axis, and below it the rows of all ranks as far as they are visible. What is shorter than a pixel
// is drawn once for each pixel, so that a picture costs the same however many slices there are.

import { colourOf, type Palette, textColourOn } from './colours.ts';
import { type Layout, type RowBox, titleHeight } from './layout.ts';
import { firstEndingAfter, type Place, type Row } from './rows.ts';
import type { Found } from './search.ts';
import { type Span, ticksOf } from './span.ts';

export interface Scene {
  readonly width: number;
  readonly height: number;
  /** Of the names of ranks and tracks, left of the picture. 0: they are above it. */
  readonly gutter: number;
  readonly scrolled: number;
  readonly span: Span;
  readonly layout: Layout;
  readonly names: readonly string[];
  /** By index of the details: whether they have an error. */
  readonly failed: Uint8Array;
  readonly palette: Palette;
  readonly found: Found | undefined;
  readonly selected: Place | undefined;
  /** The same operation on other ranks. */
  readonly related: readonly Place[];
}

export const axisHeight = 26;
const minTextWidth = 28;
const fonts = {
  title: '600 12px system-ui, sans-serif',
  text: '11px system-ui, sans-serif',
  small: '10px system-ui, sans-serif',
} as const;
/** What does not match a search. */
const faded = 0.22;

export function paint(context: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, palette, layout, scrolled } = scene;
  context.fillStyle = palette.card;
  context.fillRect(0, 0, width, height);
  grid(context, scene);
  context.save();
  context.beginPath();
  context.rect(0, axisHeight, width, height - axisHeight);
  context.clip();
  context.translate(0, axisHeight - scrolled);
  const isVisible = (top: number, size: number) =>
    top + size > scrolled && top < scrolled + height - axisHeight;
  for (const { rank, top, height: size, rows } of layout.ranks) {
    if (!isVisible(top, size)) continue;
    title(context, scene, rank.title, rank.place, top);
    for (const box of rows) if (isVisible(box.top, box.height)) row(context, scene, box);
  }
  for (const place of scene.related) outline(context, scene, place, palette.ink, 1);
  if (scene.selected !== undefined) outline(context, scene, scene.selected, palette.ink, 2);
  context.restore();
}

function grid(context: CanvasRenderingContext2D, { width, height, gutter, span, palette }: Scene): void {
  const perUs = (width - gutter) / (span.toUs - span.fromUs);
  context.font = fonts.text;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  for (const { atUs, text } of ticksOf(span, 90 / perUs)) {
    const x = Math.round(gutter + (atUs - span.fromUs) * perUs) + 0.5;
    context.fillStyle = palette.line;
    context.fillRect(x - 0.5, 0, 1, height);
    context.fillStyle = palette.soft;
    if (x + 6 + context.measureText(text).width < width) context.fillText(text, x + 5, axisHeight / 2);
  }
  context.fillStyle = palette.line;
  context.fillRect(0, axisHeight - 1, width, 1);
}

function title(
  context: CanvasRenderingContext2D,
  { gutter, width, palette }: Scene,
  name: string,
  place: string,
  top: number,
): void {
  const middle = top + titleHeight / 2 + 1;
  context.fillStyle = palette.line;
  if (top > 0) context.fillRect(0, top - 4, width, 1);
  context.font = fonts.title;
  context.fillStyle = palette.ink;
  context.fillText(name, 8, middle);
  const used = context.measureText(name).width + 16;
  context.font = fonts.small;
  context.fillStyle = palette.soft;
  context.fillText(fitted(context, place, Math.max(gutter, Math.min(width, 420)) - used - 8), used, middle);
}

function row(context: CanvasRenderingContext2D, scene: Scene, { row: drawn, top, height }: RowBox): void {
  const { gutter, width, span, palette, found, names } = scene;
  if (gutter > 0 && drawn.depth === 0) {
    context.font = fonts.small;
    context.fillStyle = palette.soft;
    context.fillText(fitted(context, drawn.track, gutter - 16), 8, top + height / 2 + 0.5);
  }
  context.save();
  context.beginPath();
  context.rect(gutter, top, width - gutter, height);
  context.clip();
  const perUs = (width - gutter) / (span.toUs - span.fromUs);
  const xOf = (us: number) => gutter + (us - span.fromUs) * perUs;
  context.font = height >= 16 ? fonts.text : fonts.small;
  for (let at = firstEndingAfter(drawn, span.fromUs); at < drawn.from.length; ) {
    if ((drawn.from[at] as number) > span.toUs) break;
    const left = xOf(drawn.from[at] as number);
    const right = Math.max(xOf(drawn.to[at] as number), left + 1);
    const isFound = found === undefined || found.names[drawn.name[at] as number] === 1;
    const name = names[drawn.name[at] as number] ?? '';
    const colour = colourOf(drawn.kind, name, scene.failed[drawn.details[at] as number] === 1);
    context.globalAlpha = isFound ? 1 : faded;
    context.fillStyle = palette[colour];
    // Neighbours are told apart where there is room for a gap.
    context.fillRect(left, top, right - left - (right - left > 4 ? 1 : 0), height - 1);
    if (found !== undefined && isFound) {
      context.fillStyle = palette.marked;
      context.fillRect(left, top + height - 4, right - left, 3);
    }
    if (right - left >= minTextWidth && height >= 13) {
      const ink = textColourOn(colour);
      context.fillStyle = ink === 'white' ? '#fff' : palette[ink];
      // The text of a slice that began before the picture stays visible.
      const x = Math.max(left, gutter) + 4;
      const shown = fitted(context, shownName(drawn, name), Math.min(right, width) - x - 4);
      context.fillText(shown, x, top + height / 2);
    }
    at =
      right - left > 1.01
        ? at + 1
        : nextAfterPixel(drawn, at, span.fromUs + (left + 1 - gutter) / perUs, found);
  }
  context.globalAlpha = 1;
  context.restore();
}

/** The next slice that is not within the same pixel; a slice that a search has found is not passed over. */
function nextAfterPixel(drawn: Row, at: number, us: number, found: Found | undefined): number {
  if (found === undefined) return Math.max(at + 1, firstEndingAfter(drawn, us));
  let next = at + 1;
  while (next < drawn.to.length && (drawn.to[next] as number) <= us) {
    if (found.names[drawn.name[next] as number] === 1) return next;
    next++;
  }
  return next;
}

const shownPhases: Readonly<Record<string, string>> = {
  FORWARD: 'forward',
  BACKPROP: 'backpropagation',
  UPDATE: 'update',
  EXPOSED_COMMUNICATION: 'waits for gradients',
  DATA_WAIT: 'waits for data',
  QUEUE: 'queue',
};

/** Names of phases in words. */
export function shownName({ kind }: Row, name: string): string {
  if (kind === 'part' && name.startsWith('NEGOTIATE')) return 'waits for other ranks';
  return kind === 'operation' || kind === 'step'
    ? name
    : (shownPhases[name] ?? name.toLowerCase().replaceAll('_', ' '));
}

function outline(
  context: CanvasRenderingContext2D,
  { layout, gutter, width, span }: Scene,
  { row: drawn, at }: Place,
  colour: string,
  size: number,
): void {
  const box = layout.ranks[drawn.rank.index]?.rows.find((each) => each.row === drawn);
  if (box === undefined) return;
  const perUs = (width - gutter) / (span.toUs - span.fromUs);
  const left = Math.max(gutter, gutter + ((drawn.from[at] as number) - span.fromUs) * perUs);
  const right = Math.min(width, gutter + ((drawn.to[at] as number) - span.fromUs) * perUs);
  if (right < gutter || left > width) return;
  context.strokeStyle = colour;
  context.lineWidth = size;
  context.strokeRect(left - 0.5, box.top - 0.5, Math.max(right - left, 2), box.height);
}

/** As much of the text as there is room for. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (width <= 0) return '';
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${text.slice(0, low)}…`;
}
