// The style sheet of the HTML report. Charts are as wide as the page; texts are HTML and keep their size.

export const styleSheet = `
:root { color-scheme: light dark; --ink: #1d2530; --soft: #5c6875; --line: #dfe4ea; --page: #fff; --card: #f6f8fa;
  --compute: #2f855a; --script: #a3d3b6; --communication: #3b6fb6; --waiting: #e39a45; --none: #edf0f3; --on-light: #16301f;
  --moving: #2a4f86; --queue: #b9c7da; --failed: #c53030; --marked: #111; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #9aa7b4; --line: #2c353f; --page: #14181d; --card: #1b2128;
  --script: #4f7f64; --none: #232a32; --on-light: #f2f7f4;
  --moving: #6c9bd6; --queue: #46566b; --failed: #e05252; --marked: #fff; } }
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
.moving { background: var(--moving); } .queue { background: var(--queue); } .failed { background: var(--failed); }
.viewer { position: relative; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; background: var(--card); }
.viewer.full { position: fixed; inset: 0; z-index: 1; border: 0; border-radius: 0; overflow: auto; display: flex; flex-direction: column; }
.tools { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; padding: .5rem; border-bottom: 1px solid var(--line); background: var(--page); }
.tools .group { display: flex; gap: .25rem; align-items: center; } .tools output { color: var(--soft); font-size: .85rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tools .shown { margin-left: auto; } #found { min-width: 4.5rem; text-align: center; }
.tools input { font: inherit; font-size: .9rem; width: 14rem; min-width: 0; flex: 1; padding: .25rem .5rem; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 4px; }
.tools button { font: inherit; font-size: .9rem; line-height: 1.4; min-width: 2rem; padding: .2rem .55rem; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 4px; cursor: pointer; }
.tools button:hover:enabled { border-color: var(--soft); } .tools button:disabled { opacity: .45; cursor: default; } .tools button[aria-pressed=true] { background: var(--none); }
:is(.tools, .chosen) :is(input, button):focus-visible { outline: 2px solid var(--communication); outline-offset: 1px; }
.overview { display: block; width: 100%; height: 34px; border-bottom: 1px solid var(--line); cursor: pointer; touch-action: none; }
.picture { display: block; width: 100%; cursor: grab; touch-action: pan-y; outline: none; } .picture.over { cursor: pointer; } .picture:active { cursor: grabbing; }
.picture:focus-visible { box-shadow: inset 0 0 0 2px var(--communication); } .full .picture { touch-action: none; flex: none; }
.tip { position: absolute; z-index: 2; max-width: 90%; padding: .15rem .5rem; font-size: .8rem; color: var(--page); background: var(--ink); border-radius: 4px; pointer-events: none; overflow-wrap: anywhere; }
.hint { position: absolute; left: 50%; top: 45%; transform: translateX(-50%); width: max-content; max-width: 90%; padding: .4rem .9rem; color: var(--page); background: var(--ink); border-radius: 6px; opacity: 0; transition: opacity .2s; pointer-events: none; }
.hint.shown { opacity: .9; }
.chosen { padding: .5rem .9rem .8rem; border-top: 1px solid var(--line); background: var(--page); } .full .chosen { max-height: 45vh; overflow: auto; }
.chosen h3 { margin: .25rem 0; font-size: 1rem; overflow-wrap: anywhere; } .chosen .cause { font-weight: 600; } .chosen dl.facts { margin: .5rem 0; gap: .4rem 1.75rem; }
.chosen table { width: auto; min-width: min(100%, 26rem); } .chosen :is(th, td):first-child { min-width: 6rem; }
.parts { display: flex; height: 1.5rem; margin: .6rem 0; border-radius: 3px; overflow: hidden; font-size: .75rem; line-height: 1.5rem; }
.parts span { flex: 0 1 0; min-width: 2px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: #fff; text-indent: .4rem; } .parts .queue { color: var(--on-light); }
button.link { font: inherit; padding: 0; border: 0; background: none; color: var(--moving); cursor: pointer; text-decoration: underline; text-underline-offset: 2px; }
.keys { margin: 0; padding: .4rem .6rem; max-width: none; font-size: .78rem; color: var(--soft); border-top: 1px solid var(--line); background: var(--page); }
.keys b { font-weight: 600; margin-left: .6rem; } .keys b:first-child { margin-left: 0; } kbd { font: inherit; padding: 0 .3em; border: 1px solid var(--line); border-radius: 3px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; font-size: .85rem; color: var(--soft); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } td:first-child { min-width: 11rem; white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 640px) { .row { grid-template-columns: minmax(0, 1fr); margin: .7rem 0; } body { padding-top: 1rem; }
  .tools .group { width: 100%; } .tools .shown { margin-left: 0; } }
@media print { body { max-width: none; } .bar, .strip, .parts { print-color-adjust: exact; } }
`;
