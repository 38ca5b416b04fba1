// The charts of the HTML report. Their texts are HTML around the drawings, so that they have the same size on every screen.

import { inPercent, type RankShares } from './findings.ts';
import type { RankSummary, TraceSummary } from './summary.ts';
import { inTime } from './units.ts';

export const chartLabels = {
  compute: 'compute (forward, backpropagation, update)',
  script: 'other code of your script',
  communication: 'communication that nothing hides',
  waiting: 'waiting for other ranks',
} as const;
type Kind = keyof typeof chartLabels;

/** Ranks with a drawing each. */
export const mostDrawnRanks = 64;
/** Shorter parts of a bar have no room for their percentage. */
const minShareWithText = 0.06;

export function legend(): string {
  const entries = (Object.keys(chartLabels) as Kind[]).map(
    (kind) => `<span><i class="${kind}"></i>${chartLabels[kind]}</span>`,
  );
  return `<div class="legend">${entries.join('')}</div>`;
}

/** One bar for each rank, divided by shares of time. */
export function shareBars(shares: readonly RankShares[]): string {
  const longest = Math.max(1, ...shares.map(({ spanUs }) => spanUs));
  return shares
    .slice(0, mostDrawnRanks)
    .map(({ rank, spanUs, computeUs = 0, exposedUs, waitingUs, otherUs }) => {
      // Hidden waiting delays nothing.
      const waiting = Math.min(waitingUs, exposedUs);
      const parts: [Kind, number][] = [
        ['compute', computeUs],
        ['script', otherUs],
        ['communication', exposedUs - waiting],
        ['waiting', waiting],
      ];
      const drawn = parts
        .filter(([, us]) => us > 0)
        .map(([kind, us]) => {
          const title = `${chartLabels[kind]}: ${inTime(us)}, ${inPercent(us, spanUs)}`;
          const text = us / longest >= minShareWithText ? `${Math.round((100 * us) / spanUs)} %` : '';
          return `<span class="${kind}" style="width:${percent(us / longest)}" title="${title}">${text}</span>`;
        });
      return row(rank, `<div class="bar">${drawn.join('')}</div>`);
    })
    .join('\n');
}

/** A strip for each rank: what it did over time. */
export function strips(summary: TraceSummary): string {
  const ranks = summary.ranks.slice(0, mostDrawnRanks);
  const binUs = Math.max(...ranks.map(({ picture }) => picture.binUs), 1);
  for (const { picture } of ranks) picture.widenTo(binUs);
  const bins = Math.max(1, Math.ceil(summary.toUs / binUs));
  const rows = ranks.map((rank) => row(rank, strip(rank, bins)));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => `<span>${inTime(part * bins * binUs)}</span>`);
  return `${rows.join('\n')}\n<div class="row"><span></span><div class="axis">${ticks.join('')}</div></div>`;
}

const stripHeight = 100;

/** One path for each colour, so that hundreds of bins take few bytes. */
function strip(rank: RankSummary, bins: number): string {
  const { picture, phases } = rank;
  const { compute, communication, waiting, exposed } = picture.filled;
  const moved = phases.size > 0 ? exposed : communication;
  const paths: Record<Kind, string> = { compute: '', script: '', communication: '', waiting: '' };
  const [first, last] = [Math.floor(rank.fromUs / picture.binUs), Math.floor(rank.toUs / picture.binUs)];
  for (let bin = first; bin <= last && bin < bins; bin++) {
    const share = (strip: Float64Array) => Math.min((strip[bin] as number) / picture.binUs, 1);
    const outside = share(moved);
    const waited = Math.min(share(waiting), outside);
    const computed = Math.min(share(compute), 1 - outside);
    let top = 0;
    for (const [kind, part] of [
      ['waiting', waited],
      ['communication', outside - waited],
      ['script', 1 - outside - computed],
      ['compute', computed],
    ] as const) {
      if (part <= 0.002) continue;
      paths[kind] += `M${bin} ${fixed(top)}h1v${fixed(part * stripHeight)}h-1z`;
      top += part * stripHeight;
    }
  }
  const drawn = (Object.keys(paths) as Kind[]).map((kind) =>
    paths[kind] === '' ? '' : `<path class="${kind}" d="${paths[kind]}"/>`,
  );
  return svg(
    'strip',
    bins,
    stripHeight,
    `<rect class="none" width="${bins}" height="${stripHeight}"/>${drawn.join('')}`,
  );
}

const lineColours = ['#3b6fb6', '#e39a45', '#2f855a', '#b3486b', '#7a5fb0', '#3a9aa5', '#8a8d3a', '#c0643c'];

/** A line for each rank: how long its steps took. Empty if there are no steps. */
export function stepChart(ranks: readonly RankSummary[]): string {
  const drawn = ranks.filter(({ steps }) => steps > 1).slice(0, mostDrawnRanks);
  const lines = drawn.map(({ stepSeries }) => stepSeries.points);
  const all = lines.flat().sort((a, b) => a - b);
  if (all.length === 0) return '';
  // A few very long steps, such as the first one, must not make all others flat.
  const most = Math.min(all.at(-1) as number, 4 * (all[all.length >> 1] as number)) * 1.05;
  const height = 100;
  const paths = lines.map((points, index) => {
    const x = (at: number) => fixed((1000 * at) / Math.max(points.length - 1, 1));
    const y = (us: number) => fixed(height - Math.min(us / most, 1) * height);
    const d = points.map((us, at) => `${at === 0 ? 'M' : 'L'}${x(at)} ${y(us)}`).join('');
    return `<path d="${d}" stroke="${lineColours[index % lineColours.length]}"><title>${escapeText(drawn[index]?.name ?? '')}</title></path>`;
  });
  const grid = [25, 50, 75].map((y) => `<line x1="0" x2="1000" y1="${y}" y2="${y}"/>`);
  const steps = Math.max(...drawn.map((rank) => rank.steps));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => `<span>${Math.round(part * (steps - 1)) + 1}</span>`);
  const names = drawn
    .slice(0, lineColours.length)
    .map(({ rank }, index) => `<span><i style="background:${lineColours[index]}"></i>rank ${rank}</span>`);
  const rest =
    drawn.length > lineColours.length ? `<span>and ${drawn.length - lineColours.length} more</span>` : '';
  return `<div class="legend">${names.join('')}${rest}</div>
<div class="plot"><div class="y"><span>${inTime(most)}</span><span>${inTime(most / 2)}</span><span>0</span></div>
${svg('chart', 1000, height, grid.join('') + paths.join(''))}<span></span><div class="axis">${ticks.join('')}</div></div>`;
}

function row({ name }: RankSummary, content: string): string {
  const [, rank = name, place = ''] = /^(rank \d+) \((.*)\)$/.exec(name) ?? [];
  const full = escapeText(name);
  return `<div class="row"><div class="name" title="${full}">${escapeText(rank)} <small>${escapeText(place)}</small></div>${content}</div>`;
}

function svg(kind: string, width: number, height: number, content: string): string {
  return `<svg class="${kind}" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true">${content}</svg>`;
}

function percent(share: number): string {
  return `${fixed(100 * share)}%`;
}

function fixed(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export function escapeText(text: string): string {
  const marks: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, (mark) => marks[mark] as string);
}
