// The style sheet of the HTML report. Charts are as wide as the page; texts are HTML and keep their size.

export const styleSheet = `
:root { color-scheme: light dark; --ink: #1d2530; --soft: #5c6875; --line: #dfe4ea; --page: #fff; --card: #f6f8fa;
  --compute: #2f855a; --script: #a3d3b6; --communication: #3b6fb6; --waiting: #e39a45; --none: #edf0f3; --on-light: #16301f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #9aa7b4; --line: #2c353f; --page: #14181d; --card: #1b2128;
  --script: #4f7f64; --none: #232a32; --on-light: #f2f7f4; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0 auto; max-width: 1240px; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .25rem; }
p { margin: .25rem 0 .75rem; max-width: 52rem; } .soft { color: var(--soft); }
dl.facts { display: flex; flex-wrap: wrap; gap: .75rem 2rem; margin: 1rem 0; }
.facts dt { color: var(--soft); font-size: .8rem; } .facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
ul.advice { list-style: none; margin: 1rem 0; padding: 0; max-width: 60rem; }
.advice li { background: var(--card); border-left: 4px solid var(--waiting); padding: .6rem .9rem; margin: .5rem 0; }
.advice li.good { border-color: var(--compute); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0 .75rem; font-size: .9rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; border-radius: 2px; vertical-align: -1px; }
.row { display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: 0 1rem; align-items: center; margin: .35rem 0; }
.name { font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; } .name small { color: var(--soft); font-weight: 400; }
.bar { display: flex; height: 1.7rem; border-radius: 3px; overflow: hidden; background: var(--none); font-size: .8rem; line-height: 1.7rem; }
.bar span { overflow: hidden; text-align: center; white-space: nowrap; color: #fff; }
.script, .waiting { color: var(--on-light) !important; }
.compute { background: var(--compute); fill: var(--compute); } .script { background: var(--script); fill: var(--script); }
.communication { background: var(--communication); fill: var(--communication); } .waiting { background: var(--waiting); fill: var(--waiting); }
.none { fill: var(--none); }
svg { display: block; width: 100%; } .strip { height: 1.7rem; border-radius: 3px; } .chart { height: 11rem; background: var(--card); border-radius: 3px; }
.chart path { fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke; } .chart line { stroke: var(--line); vector-effect: non-scaling-stroke; }
.axis { display: flex; justify-content: space-between; font-size: .8rem; color: var(--soft); }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .25rem .6rem; }
.plot .y { display: flex; flex-direction: column; justify-content: space-between; text-align: right; font-size: .8rem; color: var(--soft); white-space: nowrap; }
.tracks div:not(.script) { background: var(--none); }
.tracks div { position: relative; height: 1.35rem; border-radius: 2px; margin: 2px 0; overflow: hidden; }
.tracks span { position: absolute; top: 0; bottom: 0; overflow: hidden; white-space: nowrap; font-size: .72rem; line-height: 1.35rem; color: #fff; min-width: 1px; }
.tracks .waiting { top: 80%; } /* below the name of the operation */
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; font-size: .85rem; color: var(--soft); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } td:first-child { min-width: 11rem; white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 640px) { .row { grid-template-columns: minmax(0, 1fr); margin: .7rem 0; } body { padding-top: 1rem; } }
@media print { body { max-width: none; } .bar, .strip, .tracks { print-color-adjust: exact; } }
`;
