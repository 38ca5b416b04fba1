// The box in a cell: HTML without scripts, which Jupyter also shows of notebooks that are not trusted, and the same in one line of text.
// Colours are those that can be read on light and on dark pages, and every colour has a sign of its own.

import { stripVTControlCharacters } from 'node:util';
import { amountText } from '../../console/amounts.ts';
import type { LogLine, Tone } from '../../observe/dashboard/messages.ts';
import { secondsText } from '../../observe/status/rank-words.ts';
import { escapeText } from '../../observe/timeline/report/html-charts.ts';
import { ranksText } from '../job-parts/rank-record.ts';
import { curveSvg } from './curve-svg.ts';
import type { BoxContent, Link, RankSquare } from './job-progress.ts';
import { numberText } from './number-text.ts';

/** JupyterHub and the browser carry every update. */
export const maxBoxBytes = 20_000;
const maxLineCharacters = 200;
const maxErrorCharacters = 4000;
/** A character may take six bytes of HTML. */
const maxBareCharacters = 3000;
const maxSquares = 128;
const shownProblems = 4;

const colours: Record<Tone, string> = { good: '#2a9d63', slow: '#b3730f', bad: '#d64545', idle: '#7d828c' };

interface Look {
  readonly sign: string;
  readonly name: string;
}

const presences: Record<Exclude<RankSquare['presence'], 'here'>, Look> = {
  starting: { sign: '□', name: 'starting' },
  left: { sign: '▣', name: 'done' },
  lost: { sign: '✕', name: 'lost' },
};

const tones: Record<Tone, Look> = {
  good: { sign: '■', name: 'at work' },
  idle: { sign: '◨', name: 'waiting' },
  slow: { sign: '▲', name: 'late' },
  bad: { sign: '▲', name: 'holding up the others' },
};

export interface CellContent {
  readonly html: string;
  readonly text: string;
}

export function progressBox(content: BoxContent): CellContent {
  return { html: boxHtml(content), text: boxText(content) };
}

/** 'train.ipynb on 4 ranks: running; step 120, loss 0.312, 850 samples/s; 12 s' */
export function boxText(content: BoxContent): string {
  const { title, headline, ranks, elapsedMs, error } = content;
  const facts = factsOf(content);
  const parts = [headline.text, ...(facts.length === 0 ? [] : [facts.join(', ')]), secondsText(elapsedMs)];
  return `${title} on ${ranksText(ranks.length)}: ${parts.join('; ')}${error === undefined ? '' : `\n${error}`}`;
}

function boxHtml(content: BoxContent): string {
  const { lastLines, ranks } = content;
  // What takes most goes first, until it fits.
  const attempts = [
    { lines: lastLines, squares: maxSquares, hasCurve: true },
    { lines: lastLines.slice(-3), squares: maxSquares, hasCurve: true },
    { lines: [], squares: Math.min(maxSquares, ranks.length, 64), hasCurve: false },
  ];
  for (const attempt of attempts) {
    const html = boxOf(content, attempt);
    if (Buffer.byteLength(html) <= maxBoxBytes) return html;
  }
  return `<pre>${escapeText(cut(boxText(content), maxBareCharacters))}</pre>`;
}

interface Amount {
  readonly lines: readonly LogLine[];
  readonly squares: number;
  readonly hasCurve: boolean;
}

function boxOf(content: BoxContent, { lines, squares, hasCurve }: Amount): string {
  const { title, phase, headline, elapsedMs, ranks, curve, notes, links, error } = content;
  const isOpen = phase === 'failed' ? ' open' : '';
  const parts = [
    '<div style="font:13px/1.55 system-ui,sans-serif;max-width:46em;border:1px solid rgba(128,128,128,.45);border-radius:6px;padding:8px 12px">',
    `<div><b>${escapeText(cut(title))}</b> on ${ranksText(ranks.length)} · ${secondsText(elapsedMs)}</div>`,
    `<div><span style="color:${colours[headline.tone]}">●</span> ${escapeText(cut(headline.text, 400))}</div>`,
    barHtml(content),
    rowOf(factsOf(content).map(escapeText).join(' · ')),
    squaresHtml(ranks, squares),
    ...problemRows(ranks),
    hasCurve && curve !== undefined ? curveSvg(curve.points, cut(curve.name, 48), colours.good) : '',
    ...notes.map((note) => rowOf(`⚠ ${escapeText(cut(note, 400))}`)),
    error === undefined ? '' : preOf(escapeText(cut(error, maxErrorCharacters)), colours.bad),
    lines.length === 0
      ? ''
      : `<details${isOpen}><summary>Last lines of output</summary>${preOf(lines.map(lineHtml).join('\n'))}</details>`,
    linksHtml(links),
    '</div>',
  ];
  return parts.join('');
}

function factsOf({ headline, metrics, phase }: BoxContent): string[] {
  const { step = 0, steps, epoch, epochs, secondsLeft, samplesPerSecond = 0 } = headline;
  const isRunning = phase === 'running';
  return [
    ...(epoch === undefined ? [] : [`epoch ${ofTotal(epoch, epochs)}`]),
    ...(step > 0 ? [`step ${ofTotal(step, steps)}`] : []),
    ...metrics.slice(0, 6).map(([name, value]) => `${cut(name, 48)} ${numberText(value)}`),
    ...(samplesPerSecond > 0 && isRunning ? [`${amountText(samplesPerSecond)} samples/s`] : []),
    ...(secondsLeft !== undefined && isRunning ? [`${secondsText(1000 * secondsLeft)} left`] : []),
  ];
}

function ofTotal(count: number, total: number | undefined): string {
  const text = count.toLocaleString('en-US');
  return total === undefined ? text : `${text} of ${total.toLocaleString('en-US')}`;
}

/** Only where somebody knows how many steps there will be. */
function barHtml({ headline: { step = 0, steps = 0, tone } }: BoxContent): string {
  if (steps <= 0) return '';
  const percent = (100 * Math.min(step / steps, 1)).toFixed(1);
  return `<div style="background:rgba(128,128,128,.25);border-radius:3px;margin:4px 0"><div style="width:${percent}%;height:6px;border-radius:3px;background:${colours[tone]}"></div></div>`;
}

function lookOf({ presence, tone }: RankSquare): Look & { readonly colour: string } {
  if (presence === 'here') return { ...tones[tone], colour: colours[tone] };
  const colour = presence === 'lost' ? colours.bad : presence === 'left' ? colours.good : colours.idle;
  return { ...presences[presence], colour };
}

function squaresHtml(ranks: readonly RankSquare[], count: number): string {
  const shown = ranks.slice(0, count).map((square) => {
    const { rank, text } = square;
    const { sign, colour } = lookOf(square);
    return `<span style="color:${colour}" title="rank ${rank}: ${escapeText(cut(text, 60))}">${sign}</span>`;
  });
  const rest = ranks.length - shown.length;
  return rowOf(
    `ranks <span style="font-size:15px">${shown.join('')}</span>${rest > 0 ? ` and ${rest} more` : ''}${legend(ranks)}`,
  );
}

/** '60 at work, 4 late': signs and colours alone are not for everyone. */
function legend(ranks: readonly RankSquare[]): string {
  const counts = new Map<string, number>();
  for (const square of ranks) {
    const { name } = lookOf(square);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const parts = [...counts].map(([name, count]) => `${count} ${name}`);
  return ` <span style="opacity:.75">${parts.join(', ')}</span>`;
}

function problemRows(ranks: readonly RankSquare[]): string[] {
  // Of a late rank that trains, the headline says all that is known.
  const isProblem = ({ presence, tone, text }: RankSquare) =>
    presence === 'lost' || ((tone === 'bad' || tone === 'slow') && !/^(trains|runs)$/.test(text));
  const problems = ranks.filter(isProblem);
  const rows = problems.slice(0, shownProblems).map((square) => {
    const { sign, colour } = lookOf(square);
    return rowOf(
      `<span style="color:${colour}">${sign}</span> rank ${square.rank}: ${escapeText(cut(square.text))}`,
    );
  });
  const rest = problems.length - rows.length;
  return rest > 0 ? [...rows, rowOf(`and ${rest} more`)] : rows;
}

function lineHtml({ rank, stream, text }: LogLine): string {
  const colour = stream === 'stderr' ? colours.slow : colours.idle;
  return `<span style="color:${colour}" title="${stream}">[${rank}]</span> ${escapeText(cut(text))}`;
}

function linksHtml(links: readonly Link[]): string {
  const shown = links
    // What is no address of a page could be a script.
    .filter(({ url }) => /^(https?:\/)?\//.test(url))
    .map(
      ({ title, url }) =>
        `<a href="${escapeText(url)}" target="_blank" rel="noopener noreferrer">${escapeText(cut(title))}</a>`,
    );
  return shown.length === 0 ? '' : rowOf(shown.join(' · '));
}

function rowOf(html: string): string {
  return html === '' ? '' : `<div>${html}</div>`;
}

function preOf(html: string, colour?: string): string {
  const style = colour === undefined ? '' : `;border-left:3px solid ${colour};padding-left:8px`;
  return `<pre style="margin:4px 0;white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit;font-size:12px${style}">${html}</pre>`;
}

/** Without what terminals understand, such as colours. */
function cut(text: string, limit = maxLineCharacters): string {
  const shown = stripVTControlCharacters(text.slice(0, 2 * limit)).replaceAll(/[^\P{Cc}\n\t]/gu, '');
  return shown.length <= limit ? shown : `${shown.slice(0, limit - 1)}…`;
}
