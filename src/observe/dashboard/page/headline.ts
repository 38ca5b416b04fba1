// The head of the page: what is going on in words, how far the job is, and how it ended. Who listens instead of looking hears of it
// when the words change, not with every figure.

import type { RankSample, Tone } from '../messages.ts';
import { element, find, setChildren, setText } from './dom.ts';
import { count, duration, milliseconds, percent, rate } from './figures.ts';
import type { History } from './history.ts';
import type { ConnectionState } from './stream.ts';

/** Signs that differ in shape, not in colour alone. */
export const toneSigns: Readonly<Record<Tone, string>> = { good: '▶', slow: '◆', bad: '✕', idle: '○' };
/** 'saved': while the job ran. */
type Shown = ConnectionState | 'saved';

const connectionWords: Readonly<Record<Shown, string>> = {
  connecting: 'connecting …',
  live: 'live',
  lost: 'no connection',
  ended: 'ended',
  saved: 'saved while it ran',
};
const announceEveryMs = 10_000;

export class HeadlineView {
  readonly #head = find('head');
  readonly #figures = new Map<string, { readonly box: HTMLElement; readonly value: HTMLElement }>();
  #announced = '';
  #announcedTone: Tone | undefined;
  #announcedAt = Number.NEGATIVE_INFINITY;

  render(history: History, connection: Shown, now: number): void {
    const { latest, end, job } = history;
    const tone: Tone =
      end !== undefined ? (end.isSuccess ? 'good' : 'bad') : (latest?.headline.tone ?? 'idle');
    const text = this.#text(history);
    this.#head.dataset['tone'] = tone;
    setText(find('tone'), end?.isSuccess === true ? '✓' : toneSigns[tone]);
    setText(find('headline'), text);
    if (latest !== undefined || end !== undefined) this.#announce(tone, text, now);
    this.#showOutcome(history);
    this.#showConnection(connection, history, now);
    setText(find('command'), job?.command ?? '');
    find('command').title = job?.command ?? '';
    this.#showProgress(history);
    this.#showFigures(history, now);
    const done = this.#shareDone(history);
    const where = end === undefined ? (done === undefined ? '' : `${percent(done)} · `) : '';
    const title = `${where}${text.split('\n')[0]} · Horovod`;
    if (document.title !== title) document.title = title;
    this.#showIcon(tone);
  }

  #text({ end, latest, job }: History): string {
    if (end !== undefined) return sentence(end.text.split('\n')[0] ?? '');
    if (latest !== undefined) return sentence(latest.headline.text);
    return job === undefined ? 'Connecting …' : 'Waiting for the first ranks …';
  }

  #announce(tone: Tone, headline: string, now: number): void {
    const text = `${tone === 'bad' ? 'Problem: ' : ''}${headline}`;
    // Of the same kind of news, not all.
    const words = text.replaceAll(/[\d.,]+/g, '');
    const isSoon = tone === this.#announcedTone && now - this.#announcedAt < announceEveryMs;
    if (words === this.#announced || isSoon) return;
    this.#announcedTone = tone;
    this.#announced = words;
    this.#announcedAt = now;
    setText(find('announce'), text);
  }

  /** The first line of it is the headline. */
  #showOutcome({ end }: History): void {
    const more = end?.text.split('\n').slice(1).join('\n').trim() ?? '';
    find('outcome').hidden = more === '';
    setText(find('outcome'), more);
  }

  #showConnection(connection: Shown, { end, latest }: History, now: number): void {
    const chip = find('connection');
    chip.dataset['state'] = connection;
    const since = latest === undefined ? '' : ` since ${duration((now - latest.at) / 1000)}`;
    const words = end !== undefined ? 'ended' : connectionWords[connection];
    setText(chip, connection === 'lost' && end === undefined ? `${words}${since}, trying again` : words);
  }

  #shareDone({ latest }: History): number | undefined {
    const { step, steps } = latest?.headline ?? {};
    return step === undefined || steps === undefined || steps <= 0 ? undefined : Math.min(1, step / steps);
  }

  #showProgress(history: History): void {
    const done = this.#shareDone(history);
    const bar = find('progress');
    bar.hidden = done === undefined;
    if (done === undefined) return;
    const { step, steps } = history.latest?.headline ?? {};
    bar.setAttribute('aria-valuenow', String(step));
    bar.setAttribute('aria-valuemax', String(steps));
    find('progress-done').style.width = `${done * 100}%`;
  }

  #showFigures({ latest, job, end }: History, now: number): void {
    const head = latest?.headline;
    const until = end?.at ?? Math.max(now, latest?.at ?? 0);
    const rows: [string, string | undefined][] = [
      ['step', head && `${count(head.step)}${head.steps === undefined ? '' : ` of ${count(head.steps)}`}`],
      [
        'epoch',
        head?.epoch === undefined
          ? undefined
          : `${head.epoch}${head.epochs === undefined ? '' : ` of ${head.epochs}`}`,
      ],
      [
        'time left',
        head?.secondsLeft === undefined || end !== undefined ? undefined : duration(head.secondsLeft),
      ],
      ['elapsed', job && duration((until - job.startedAt) / 1000)],
      [
        'samples/s',
        head === undefined || head.samplesPerSecond === 0 ? undefined : rate(head.samplesPerSecond),
      ],
      ['step time', stepTime(latest?.ranks)],
      [
        'exposed communication',
        head?.exposedShare === undefined ? undefined : `${percent(head.exposedShare)} of a step`,
      ],
      [
        'waiting for data',
        head?.dataShare === undefined ? undefined : `${percent(head.dataShare)} of a step`,
      ],
      ['generation', latest?.generation === undefined ? undefined : String(latest.generation)],
    ];
    const boxes = rows.flatMap(([name, text]) => (text === undefined ? [] : [this.#figure(name, text)]));
    setChildren(find('figures'), boxes);
  }

  #figure(name: string, text: string): HTMLElement {
    let figure = this.#figures.get(name);
    if (figure === undefined) {
      const value = element('dd');
      figure = { value, box: element('div', {}, element('dt', { text: name }), value) };
      this.#figures.set(name, figure);
    }
    setText(figure.value, text);
    return figure.box;
  }

  #showIcon(tone: Tone): void {
    const colours: Readonly<Record<Tone, string>> = {
      good: '#2f855a',
      slow: '#d9822b',
      bad: '#c53030',
      idle: '#7b8794',
    };
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="${colours[tone]}"/></svg>`;
    const href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
    const icon = find<HTMLLinkElement>('icon');
    if (icon.href !== href) icon.href = href;
  }
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The longest of all: the others wait for it. */
function stepTime(ranks: readonly RankSample[] = []): string | undefined {
  const times = ranks.flatMap(({ stepMs }) => stepMs ?? []);
  return times.length === 0 ? undefined : milliseconds(Math.max(...times));
}
