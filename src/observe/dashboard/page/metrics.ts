// Loss and other metrics, one chart each: their values as they came, pale, and smoothed. A value that is no number leaves a gap and a
// warning.

import { Chart } from './charts.ts';
import { type MetricCurve, metricCurves, smoothed } from './curves.ts';
import { element, find, setChildren, setText } from './dom.ts';
import { count, metric } from './figures.ts';
import type { History } from './history.ts';
import type { Theme } from './theme.ts';

interface MetricPlace {
  readonly box: HTMLElement;
  readonly value: HTMLElement;
  readonly warning: HTMLElement;
  readonly chart: Chart;
  curve: MetricCurve;
  soft: readonly (number | null)[];
}

export class MetricsView {
  readonly #theme: Theme;
  readonly #smoothing = find<HTMLInputElement>('smoothing');
  readonly #logAxis = find<HTMLInputElement>('log-axis');
  readonly #places = new Map<string, MetricPlace>();
  #curves: readonly MetricCurve[] = [];

  constructor(theme: Theme) {
    this.#theme = theme;
    this.#smoothing.addEventListener('input', () => this.#draw());
    this.#logAxis.addEventListener('change', () => this.#draw());
  }

  render({ samples }: History): void {
    this.#curves = metricCurves(samples);
    this.#draw();
  }

  #draw(): void {
    find('no-metrics').hidden = this.#curves.length > 0;
    const boxes = this.#curves.map((curve) => this.#drawCurve(curve));
    for (const [name, place] of this.#places) {
      if (this.#curves.some((curve) => curve.name === name)) continue;
      place.chart.remove();
      this.#places.delete(name);
    }
    setChildren(find('charts'), boxes);
  }

  #drawCurve(curve: MetricCurve): HTMLElement {
    let place = this.#places.get(curve.name);
    if (place === undefined) {
      place = this.#create(curve);
      this.#places.set(curve.name, place);
      // A chart needs to know its width.
      find('charts').append(place.box);
    }
    const isLog = this.#logAxis.checked;
    // There is no logarithm of what is not above zero.
    const y = isLog ? curve.y.map((value) => (value !== null && value > 0 ? value : null)) : curve.y;
    place.curve = curve;
    place.soft = smoothed(y, Number(this.#smoothing.value));
    place.chart.setLog(isLog);
    place.chart.show([curve.x, y, place.soft], wordsOf(curve));
    this.#say(place, undefined);
    const { brokenSince, latest } = curve;
    place.warning.hidden = brokenSince === undefined;
    setText(place.warning, brokenSince === undefined ? '' : `✕ ${latest} since step ${count(brokenSince)}`);
    return place.box;
  }

  #create(curve: MetricCurve): MetricPlace {
    const value = element('span', { class: 'value' });
    const warning = element('span', { class: 'warning' });
    const canvas = element('div', { class: 'chart' });
    const title = element('h3', { text: curve.name, title: curve.name });
    const box = element('figure', {}, element('figcaption', {}, title, warning, value), canvas);
    const lines = [
      { label: 'as reported', colour: '--metric-pale', width: 1 },
      { label: 'smoothed', colour: '--metric', width: 2 },
    ];
    const chart = new Chart(canvas, this.#theme, {
      height: 150,
      x: 'step',
      isLog: this.#logAxis.checked,
      fromZero: false,
      lines,
      unit: '',
      onCursor: (index) => {
        const known = this.#places.get(curve.name);
        if (known !== undefined) this.#say(known, index);
      },
    });
    return { box, value, warning, chart, curve, soft: [] };
  }

  #say({ value, curve, soft }: MetricPlace, index: number | undefined): void {
    const at = index ?? curve.x.length - 1;
    const [x, y, smooth] = [curve.x[at], curve.y[at], soft[at]];
    if (x === undefined) {
      setText(value, metric(curve.latest));
      return;
    }
    const own = typeof y === 'number' ? metric(y) : index === undefined ? metric(curve.latest) : 'no number';
    const both = typeof smooth === 'number' && smooth !== y ? `${own} (smoothed ${metric(smooth)})` : own;
    setText(value, index === undefined ? both : `step ${count(x)}: ${both}`);
  }
}

function wordsOf({ name, x, y, latest }: MetricCurve): string {
  const known = y.filter((value) => value !== null);
  const lowest = known.reduce((low, each) => Math.min(low, each), Number.POSITIVE_INFINITY);
  const highest = known.reduce((high, each) => Math.max(high, each), Number.NEGATIVE_INFINITY);
  const range = known.length === 0 ? '' : `, between ${metric(lowest)} and ${metric(highest)}`;
  return `${name} by step: ${metric(latest)} at step ${count(x.at(-1) ?? 0)}${range}`;
}
