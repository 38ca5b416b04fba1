// The section of the HTML report that page/ turns into a picture to move in: its elements, its data and its script.

import { createHash } from 'node:crypto';
import { escapeText } from './html-charts.ts';
import { inlineModules } from './inline-modules.ts';
import type { TimelineData } from './timeline-data.ts';
import { inTime } from './units.ts';

const legendEntries = [
  ['compute', 'compute'],
  ['communication', 'collective, or communication that nothing hides'],
  ['queue', 'queue'],
  ['waiting', 'waiting for other ranks'],
  ['moving', 'moving and combining data'],
  ['failed', 'failed'],
] as const;

export function timelineSection(data: TimelineData): string {
  const legend = legendEntries.map(([kind, text]) => `<span><i class="${kind}"></i>${text}</span>`).join('');
  const missing =
    data.leftOut === 0
      ? ''
      : `<p class="soft">${data.leftOut.toLocaleString('en-US')} slices shorter than ${inTime(data.minUs)} are in the file and not on this page, to keep it small.</p>`;
  return `<h2 id="timeline">Timeline</h2>
<p class="soft">Each rank has a row for its steps, one for the phases of training and one for collectives, with what happens inside of each collective below it. Choose one to see who was late.</p>
${missing}
<div class="legend">${legend}</div>
<div class="viewer" id="viewer" hidden>
<div class="tools">
<div class="group" role="search"><input id="search" type="search" placeholder="Search by name" aria-label="Search slices by name" autocomplete="off" spellcheck="false"><output id="found" for="search"></output><button id="previous" type="button" title="Previous (Shift+N)" aria-label="Previous" disabled>‹</button><button id="next" type="button" title="Next (N)" aria-label="Next" disabled>›</button></div>
<div class="group"><button id="farther" type="button" title="Farther (−)" aria-label="Farther">−</button><button id="nearer" type="button" title="Nearer (+)" aria-label="Nearer">+</button><button id="step" type="button" title="A typical step (1)">One step</button><button id="all" type="button" title="The whole timeline (0)">All</button><button id="full" type="button" title="As large as the window (F)" aria-pressed="false">Full window</button></div>
<output id="shown" class="shown" aria-label="What the picture shows"></output>
</div>
<canvas id="overview" class="overview" aria-hidden="true"></canvas>
<canvas id="picture" class="picture" tabindex="0" role="application" aria-label="Timeline of all ranks" aria-describedby="keys"></canvas>
<div id="hint" class="hint" aria-hidden="true">Click the timeline first, or hold Ctrl, to zoom with the wheel</div>
<div id="tip" class="tip" hidden></div>
<section id="chosen" class="chosen" aria-live="polite" hidden></section>
<p id="keys" class="keys"><b>Move</b> drag, <kbd>←</kbd> <kbd>→</kbd> <kbd>Home</kbd> <kbd>End</kbd> <b>Zoom</b> wheel, pinch, <kbd>+</kbd> <kbd>−</kbd>, double click <b>Scroll</b> <kbd>↑</kbd> <kbd>↓</kbd> <b>Choose</b> click, <kbd>[</kbd> <kbd>]</kbd> <b>Search</b> <kbd>/</kbd>, then <kbd>N</kbd> <b>Step</b> <kbd>1</kbd> <b>All</b> <kbd>0</kbd> <b>Full window</b> <kbd>F</kbd></p>
</div>
<noscript><p>Turn on JavaScript to see the timeline.</p></noscript>
<script type="application/json" id="timeline-data">${escapeJson(JSON.stringify(data))}</script>`;
}

/** The script of the page; it contains nothing of the file. */
export function timelineScript(): string {
  return `\n${inlineModules(new URL('./page/main.js', import.meta.url))}\n`;
}

/** Names come from users: nothing of them may end the element, or begin another one. */
function escapeJson(json: string): string {
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** What the page may load and run: its own script and styles, and nothing from anywhere. */
export function contentPolicy(scripts: readonly string[], connect: "'none'" | "'self'"): string {
  const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
  return escapeText(
    `default-src 'none'; style-src 'unsafe-inline'; script-src ${hashes.join(' ')}; connect-src ${connect}; base-uri 'none'; form-action 'none'`,
  );
}
