// One row for each rank, under the host that it runs on: what it does in words, its step time with the way it went, waiting,
// communication, processors and memory. A selected rank shows more.

import type { RankSample, Sample } from '../messages.ts';
import { usualLargest } from './curves.ts';
import { element, find, setChildren, setText, setTitle } from './dom.ts';
import { bytes, cores, count, metric, milliseconds, percent, rankName, rate } from './figures.ts';
import { toneSigns } from './headline.ts';
import { measureOf } from './heat-cells.ts';
import type { History } from './history.ts';
import { hostGauges } from './hosts.ts';
import type { Selection } from './selection.ts';
import { Sparkline } from './sparkline.ts';

interface Row {
  readonly row: HTMLTableRowElement;
  readonly button: HTMLButtonElement;
  readonly sign: HTMLElement;
  readonly words: HTMLElement;
  readonly line: Sparkline;
  readonly cells: readonly HTMLTableCellElement[];
}

interface Group {
  readonly row: HTMLTableRowElement;
  readonly cell: HTMLTableCellElement;
}

const columns: readonly { readonly name: string; readonly class: string; readonly title?: string }[] = [
  { name: 'Rank', class: 'key' },
  { name: 'State', class: 'words' },
  { name: 'Step', class: 'number minor' },
  { name: 'Step time', class: 'number' },
  { name: 'Last minute', class: 'spark', title: 'Step time; filled: without waiting for other ranks' },
  {
    name: 'Late',
    class: 'number minor',
    title: 'How much later than the others it arrives, or how long they wait for it',
  },
  { name: 'Waits', class: 'number', title: 'Waiting for other ranks, per step' },
  { name: 'Exposed', class: 'number minor', title: 'Communication that computing does not hide, per step' },
  { name: 'Samples/s', class: 'number minor' },
  { name: 'CPU', class: 'number minor', title: 'Busy cores of this process' },
  { name: 'Memory', class: 'number minor', title: 'Resident memory of this process' },
];
const sparkPoints = 60;
/** The head of the table stays above the rows. */
const headPx = 30;
/** Named above the table. */
const maxProblems = 6;

export class RanksTable {
  readonly #selection: Selection;
  readonly #showLog: (rank: number) => void;
  readonly #rows = new Map<number, Row>();
  readonly #groups = new Map<string, Group>();
  readonly #body = element('tbody');
  readonly #details: HTMLTableRowElement;
  readonly #detailsCell = element('td', { attributes: { colspan: String(columns.length) } });
  readonly #problemsOnly = find<HTMLInputElement>('problems-only');
  #history: History | undefined;

  constructor(selection: Selection, showLog: (rank: number) => void) {
    this.#selection = selection;
    this.#showLog = showLog;
    this.#details = element('tr', { class: 'details' }, this.#detailsCell);
    const heads = columns.map(({ name, class: style, title }) =>
      element('th', { text: name, class: style, title, attributes: { scope: 'col' } }),
    );
    find('ranks-table').append(element('thead', {}, element('tr', {}, ...heads)), this.#body);
    this.#problemsOnly.addEventListener('change', () => this.#draw());
    selection.onChange((rank) => {
      this.#draw();
      if (rank !== undefined) this.#reveal(rank);
    });
  }

  render(history: History): void {
    this.#history = history;
    this.#draw();
  }

  #draw(): void {
    const { latest, samples = [] } = this.#history ?? {};
    const isEmpty = (latest?.ranks ?? []).length === 0;
    find('no-ranks').hidden = !isEmpty;
    find('ranks-scroll').hidden = isEmpty;
    if (latest === undefined) return;
    setText(find('ranks-summary'), summaryOf(latest.ranks));
    const shown = latest.ranks.filter(
      ({ tone, rank }) =>
        !this.#problemsOnly.checked || tone === 'bad' || tone === 'slow' || rank === this.#selection.rank,
    );
    this.#showProblems(latest.ranks);
    const recent = samples.slice(-sparkPoints);
    const longest = usualLargest(recent.flatMap(({ ranks }) => ranks.flatMap(({ stepMs }) => stepMs ?? [])));
    const series = seriesOf(recent);
    const hosts = [...new Set(shown.map(({ host }) => host))];
    const rows = hosts.flatMap((host) => [
      this.#group(host, latest),
      ...shown
        .filter((rank) => rank.host === host)
        .flatMap((rank) => this.#rank(rank, series.get(rank.rank) ?? [], longest)),
    ]);
    setChildren(this.#body, rows);
    const known = new Set(latest.ranks.map(({ rank }) => rank));
    for (const rank of this.#rows.keys()) if (!known.has(rank)) this.#rows.delete(rank);
  }

  /** Scrolls the table, not the page: the click may have been elsewhere. */
  #reveal(rank: number): void {
    const row = this.#rows.get(rank)?.row;
    const place = find('ranks-scroll');
    if (row === undefined) return;
    const from = row.offsetTop - headPx;
    const to = row.offsetTop + row.offsetHeight + this.#details.offsetHeight;
    if (from < place.scrollTop) place.scrollTop = from;
    else if (to > place.scrollTop + place.clientHeight)
      place.scrollTop = Math.min(from, to - place.clientHeight);
  }

  /** Above the table, because it may be long. */
  #showProblems(ranks: readonly RankSample[]): void {
    const found = ranks.filter(({ tone }) => tone === 'bad' || tone === 'slow');
    const order = ({ isCause, tone }: RankSample) => (isCause ? 0 : tone === 'bad' ? 1 : 2);
    found.sort((a, b) => order(a) - order(b) || a.rank - b.rank);
    const text = found.map(({ rank, tone, text }) => `${rank} ${tone} ${text}`).join('\n');
    const place = find('ranks-problems');
    place.hidden = found.length === 0;
    if (place.dataset['shown'] === text) return;
    place.dataset['shown'] = text;
    const buttons = found.slice(0, maxProblems).map(({ rank, tone, text }) => {
      const sign = element('span', {
        class: 'tone',
        text: toneSigns[tone],
        attributes: { 'aria-hidden': 'true' },
      });
      const words = element('span', { text: `${rankName(rank)}: ${text}` });
      const button = element('button', { attributes: { type: 'button', 'data-tone': tone } }, sign, words);
      button.addEventListener('click', () => this.#selection.set(rank));
      return button;
    });
    const more = found.length - buttons.length;
    place.replaceChildren(
      ...buttons,
      ...(more > 0 ? [element('span', { class: 'soft', text: `and ${more} more` })] : []),
    );
  }

  #group(host: string, { hosts }: Sample): HTMLTableRowElement {
    let group = this.#groups.get(host);
    if (group === undefined) {
      const cell = element('th', { attributes: { colspan: String(columns.length), scope: 'rowgroup' } });
      group = { cell, row: element('tr', { class: 'host' }, cell) };
      this.#groups.set(host, group);
    }
    const use = hosts.find((each) => each.host === host);
    const name = element('span', { class: 'name', text: host || 'on a host not known yet' });
    group.cell.replaceChildren(name, ...(use === undefined ? [] : hostGauges(use)));
    return group.row;
  }

  #rank(sample: RankSample, own: Series, longest: number): HTMLTableRowElement[] {
    const row = this.#rows.get(sample.rank) ?? this.#create(sample.rank);
    const isSelected = this.#selection.rank === sample.rank;
    row.row.dataset['tone'] = sample.tone;
    row.row.dataset['presence'] = sample.presence;
    row.row.classList.toggle('selected', isSelected);
    row.button.setAttribute('aria-expanded', String(isSelected));
    setText(row.sign, sample.presence === 'left' ? '✓' : toneSigns[sample.tone]);
    setText(row.words, sample.text);
    setTitle(row.words, sample.text);
    const texts = [
      count(sample.step),
      milliseconds(sample.stepMs),
      undefined,
      sample.late ?? '–',
      milliseconds(sample.waitMs),
      milliseconds(sample.exposedMs),
      rate(sample.samplesPerSecond),
      cores(sample.busyCores),
      bytes(sample.rssBytes === 0 ? undefined : sample.rssBytes),
    ];
    texts.forEach((text, at) => {
      const cell = row.cells[at];
      if (text !== undefined && cell !== undefined) setText(cell, text);
    });
    row.line.show(
      own.map((each) => each?.stepMs),
      own.map((each) => each && measureOf(each, 'work')),
      longest,
    );
    if (!isSelected) return [row.row];
    this.#showDetails(sample);
    return [row.row, this.#details];
  }

  #create(rank: number): Row {
    const button = element('button', {
      class: 'plain',
      text: String(rank),
      attributes: { type: 'button', 'aria-label': `${rankName(rank)}, more about it` },
    });
    const sign = element('span', { class: 'tone', attributes: { 'aria-hidden': 'true' } });
    const words = element('span');
    const line = new Sparkline();
    const cells = columns.slice(2).map((column) => element('td', { class: column.class }));
    cells[2]?.append(line.element);
    const key = element('th', { class: 'key', attributes: { scope: 'row' } }, button);
    const row = element(
      'tr',
      { class: 'rank' },
      key,
      element('td', { class: 'words' }, sign, words),
      ...cells,
    );
    row.addEventListener('click', () => this.#selection.toggle(rank));
    const made = { row, button, sign, words, line, cells };
    this.#rows.set(rank, made);
    return made;
  }

  #showDetails(sample: RankSample): void {
    const { rank, host, pid, presence } = sample;
    const facts: [string, string][] = [
      ['host', host],
      ['process', pid === 0 ? '–' : String(pid)],
      ['presence', presence],
      ['step', count(sample.step)],
      ['late', sample.late ?? '–'],
      ['waits for others', milliseconds(sample.waitMs)],
      ['exposed communication', milliseconds(sample.exposedMs)],
      ...(sample.dataShare === undefined
        ? []
        : [['waits for data', percent(sample.dataShare)] satisfies [string, string]]),
      ['last collective', sample.last ?? '–'],
      ['reduces', sample.bytesPerSecond === 0 ? '–' : `${bytes(sample.bytesPerSecond)}/s`],
      ['samples/s', rate(sample.samplesPerSecond)],
      ['busy cores', cores(sample.busyCores)],
      ['memory', bytes(sample.rssBytes === 0 ? undefined : sample.rssBytes)],
      ...Object.entries(sample.metrics).map(([name, value]): [string, string] => [name, metric(value)]),
    ];
    const text = [sample.text, ...facts.map((fact) => fact.join(' '))].join('\n');
    if (this.#detailsCell.dataset['shown'] === text) return;
    this.#detailsCell.dataset['shown'] = text;
    const list = element('dl', { class: 'figures' });
    for (const [name, value] of facts) {
      list.append(element('div', {}, element('dt', { text: name }), element('dd', { text: value })));
    }
    const log =
      this.#detailsCell.querySelector('button') ?? element('button', { attributes: { type: 'button' } });
    log.textContent = `Log of ${rankName(rank)}`;
    log.onclick = () => this.#showLog(rank);
    this.#detailsCell.replaceChildren(element('p', { text: sample.text }), list, log);
  }
}

/** Of one rank, by sample. */
type Series = readonly (RankSample | undefined)[];

function seriesOf(samples: readonly Sample[]): Map<number, Series> {
  const series = new Map<number, (RankSample | undefined)[]>();
  samples.forEach(({ ranks }, at) => {
    for (const rank of ranks) {
      let own = series.get(rank.rank);
      if (own === undefined) {
        own = samples.map(() => undefined);
        series.set(rank.rank, own);
      }
      own[at] = rank;
    }
  });
  return series;
}

function summaryOf(ranks: readonly RankSample[]): string {
  const parts = (['starting', 'left', 'lost'] as const).flatMap((presence) => {
    const found = ranks.filter((rank) => rank.presence === presence).length;
    return found === 0 ? [] : [`${found} ${presence === 'left' ? 'finished' : presence}`];
  });
  const slow = ranks.filter(({ tone, presence }) => presence === 'here' && tone === 'slow').length;
  if (slow > 0) parts.push(`${slow} slow`);
  return [`${ranks.length} ${ranks.length === 1 ? 'rank' : 'ranks'}`, ...parts].join(', ');
}
