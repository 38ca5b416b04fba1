// Where the time of a step goes: computing, waiting for data, communication that computing does not hide, and waiting for other ranks,
// on top of each other. On average over the ranks, or of the selected one.

import { Chart } from './charts.ts';
import { type StepParts, stepParts, usualLargest } from './curves.ts';
import { element, find, setText } from './dom.ts';
import { clock, milliseconds, percent, rankName } from './figures.ts';
import type { History } from './history.ts';
import type { Selection } from './selection.ts';
import type { Theme } from './theme.ts';

type Part = Exclude<keyof StepParts, 'at' | 'isWaitingKnown'>;

/** From the bottom to the top. */
const parts: readonly { readonly part: Part; readonly label: string }[] = [
  { part: 'computing', label: 'computing' },
  { part: 'data', label: 'waiting for data' },
  { part: 'communication', label: 'exposed communication' },
  { part: 'waiting', label: 'waiting for ranks' },
];

export class CommunicationView {
  readonly #selection: Selection;
  readonly #chart: Chart;
  readonly #values = new Map<Part, HTMLElement>();
  readonly #when = element('span', { class: 'readout' });
  #history: History | undefined;
  #parts: readonly StepParts[] = [];

  constructor(theme: Theme, selection: Selection) {
    this.#selection = selection;
    this.#chart = new Chart(find('communication-chart'), theme, {
      height: 230,
      x: 'time',
      isLog: false,
      fromZero: true,
      largest: (plotted) => usualLargest(plotted[1] ?? []),
      // The highest first: each covers the lower part of the one before.
      lines: parts
        .map(({ part, label }) => ({ label, colour: `--${part}`, width: 0, isArea: true }))
        .reverse(),
      unit: ' ms',
      onCursor: (index) => this.#say(index),
    });
    for (const { part, label } of parts) {
      const value = element('b');
      this.#values.set(part, value);
      const swatch = element('i', { class: `swatch ${part}`, attributes: { 'aria-hidden': 'true' } });
      find('communication-legend').append(
        element('span', {}, swatch, element('span', { text: `${label} ` }), value),
      );
    }
    find('communication-legend').append(this.#when);
    selection.onChange(() => this.#draw());
  }

  render(history: History): void {
    this.#history = history;
    this.#draw();
  }

  #draw(): void {
    const { rank } = this.#selection;
    const { samples = [], latest } = this.#history ?? {};
    this.#parts = stepParts(samples, rank);
    find('communication').classList.toggle('empty', this.#parts.length === 0);
    find('no-steps').hidden = this.#parts.length > 0;
    if (this.#parts.length === 0) {
      setText(find('communication-of'), '');
      return;
    }
    const ranks = latest?.ranks.length ?? 0;
    setText(
      find('communication-of'),
      rank === undefined ? `average of ${ranks} ${ranks === 1 ? 'rank' : 'ranks'}` : rankName(rank),
    );
    const sums = parts.map(({ part }, last) =>
      this.#parts.map((each) =>
        parts.slice(0, last).reduce((sum, below) => sum + each[below.part], each[part]),
      ),
    );
    this.#chart.show([this.#parts.map(({ at }) => at / 1000), ...sums.reverse()], this.#words());
    this.#say(undefined);
  }

  #words(): string {
    const latest = this.#parts.at(-1);
    if (latest === undefined) return 'Nobody knows yet how long a step takes.';
    return `A step now: ${parts.map(({ part, label }) => `${milliseconds(latest[part])} ${label}`).join(', ')}`;
  }

  #say(index: number | undefined): void {
    const shown = index === undefined ? this.#parts.at(-1) : this.#parts[index];
    const total = shown === undefined ? 0 : parts.reduce((sum, { part }) => sum + shown[part], 0);
    for (const [part, value] of this.#values) {
      const isKnown = shown !== undefined && (part !== 'waiting' || shown.isWaitingKnown);
      setText(
        value,
        isKnown ? `${milliseconds(shown[part])} (${percent(shown[part] / (total || 1))})` : 'not known',
      );
    }
    setText(this.#when, shown === undefined || index === undefined ? '' : clock(shown.at));
  }
}
