// The colour of a slice, by what it says about a step: computing, moving data, or waiting. They are those of the charts above, from the
// style sheet, so that they follow its light and dark variant.

import type { RowKind } from './rows.ts';

export const colourNames = [
  'ink',
  'soft',
  'line',
  'page',
  'card',
  'compute',
  'script',
  'communication',
  'moving',
  'queue',
  'waiting',
  'none',
  'failed',
  'marked',
  'on-light',
] as const;
export type ColourName = (typeof colourNames)[number];
export type Palette = Readonly<Record<ColourName, string>>;

export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  return Object.fromEntries(
    colourNames.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as Record<ColourName, string>;
}

/** `hasFailed`: the operation has an error. */
export function colourOf(kind: RowKind, name: string, hasFailed: boolean): ColourName {
  if (hasFailed) return 'failed';
  if (kind === 'step') return 'none';
  if (kind === 'phase') return name === 'EXPOSED_COMMUNICATION' ? 'communication' : 'compute';
  if (kind === 'operation') return 'communication';
  if (kind === 'other')
    return name === 'DATA_WAIT' ? 'waiting' : name === 'EVENTS_DROPPED' ? 'failed' : 'soft';
  if (name === 'QUEUE') return 'queue';
  return name.startsWith('NEGOTIATE') || name === 'WAIT' ? 'waiting' : 'moving';
}

/** Of text on a slice of this colour. */
export function textColourOn(colour: ColourName): ColourName | 'white' {
  if (colour === 'none') return 'ink';
  return colour === 'waiting' || colour === 'queue' || colour === 'script' ? 'on-light' : 'white';
}
