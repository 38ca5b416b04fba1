// The page of the dashboard: connects to the server's stream, or reads what a saved page contains, and draws after each event, at most
// once per frame. A hidden page draws nothing and catches up when it is looked at.

import type { DashboardStart } from '../messages.ts';
import { CommunicationView } from './communication.ts';
import { Controls } from './controls.ts';
import { find } from './dom.ts';
import { EventsView } from './events.ts';
import { HeadlineView } from './headline.ts';
import { HeatMap } from './heat-map.ts';
import { History } from './history.ts';
import { HostsView } from './hosts.ts';
import { LogSource } from './log-source.ts';
import { LogsView } from './logs.ts';
import { MetricsView } from './metrics.ts';
import { RanksTable } from './ranks-table.ts';
import { Selection } from './selection.ts';
import { addShortcuts } from './shortcuts.ts';
import { type ConnectionState, Stream } from './stream.ts';
import { Theme } from './theme.ts';

const checkEveryMs = 1000;

function start(): void {
  const saved = savedStart();
  const history = new History();
  const theme = new Theme(find('theme'));
  const selection = new Selection();
  const headline = new HeadlineView();
  const logs = new LogsView(new LogSource(saved === undefined));
  const controls = new Controls();
  const sampleViews = [
    new MetricsView(theme),
    new RanksTable(selection, (rank) => logs.showRank(rank)),
    new HeatMap(theme, selection),
    new CommunicationView(theme, selection),
    new HostsView(),
  ];
  const events = new EventsView(selection);
  // Whoever has no mouse scrolls with the keys.
  for (const id of ['ranks-scroll', 'log-lines', 'events-list']) find(id).tabIndex = 0;
  // Clocks of server and browser may differ: times on the page are those of the server.
  let ahead = 0;
  let connection: ConnectionState | 'saved' = 'connecting';
  let isWaiting = false;
  let drawn = { sampleChanges: 0, newsChanges: 0 };

  // In a saved page, time stands still.
  const now = () => (saved === undefined ? Date.now() + ahead : (history.latest?.at ?? 0));
  const showHead = () => headline.render(history, connection, now());
  const draw = () => {
    isWaiting = false;
    showHead();
    logs.render(history);
    controls.render(history);
    const { sampleChanges, newsChanges } = history;
    if (newsChanges !== drawn.newsChanges) events.render(history);
    if (sampleChanges !== drawn.sampleChanges) for (const view of sampleViews) view.render(history);
    drawn = { sampleChanges, newsChanges };
  };
  const drawSoon = () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(draw);
  };

  addShortcuts([
    { key: '/', text: 'search the logs', run: () => logs.focusSearch() },
    { key: 'f', text: 'follow the logs', run: () => logs.toggleFollow() },
    { key: 'e', text: 'only errors in the logs', run: () => logs.toggleErrors() },
    { key: 'n', text: 'next rank', run: () => selection.set(neighbour(history, selection.rank, 1)) },
    { key: 'p', text: 'previous rank', run: () => selection.set(neighbour(history, selection.rank, -1)) },
    {
      key: 'l',
      text: 'log of the selected rank',
      run: () => selection.rank !== undefined && logs.showRank(selection.rank),
    },
    { key: 'Escape', text: 'no rank selected', run: () => selection.set(undefined) },
    { key: 't', text: 'light, dark or automatic', run: () => theme.next() },
    ...sections.map(([id, text], at) => ({ key: String(at + 1), text, run: () => goTo(id) })),
  ]);

  if (saved !== undefined) {
    find('save').hidden = true;
    connection = 'saved';
    history.apply('start', { ...saved, hasControl: false });
    draw();
    return;
  }
  const stream = new Stream({
    open: () => new EventSource('events'),
    onEvent: (name, event) => {
      history.apply(name, event);
      if (name === 'sample') ahead = (history.latest?.at ?? Date.now()) - Date.now();
      drawSoon();
    },
    onState: (state) => {
      connection = state;
      showHead();
    },
  });
  setInterval(() => {
    stream.check();
    if (connection !== 'ended' && !document.hidden) showHead();
  }, checkEveryMs);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) stream.check();
  });
}

const sections: readonly (readonly [id: string, text: string])[] = [
  ['metrics-title', 'loss and metrics'],
  ['ranks-title', 'ranks'],
  ['heat-title', 'ranks over time'],
  ['communication-title', 'where the time of a step goes'],
  ['logs-title', 'logs'],
  ['events-title', 'events'],
  ['hosts-title', 'hosts, settings, versions'],
];

function goTo(id: string): void {
  find(id).scrollIntoView({ block: 'start' });
  find(id).focus({ preventScroll: true });
}

function neighbour({ latest }: History, rank: number | undefined, step: number): number | undefined {
  const ranks = latest?.ranks.map((each) => each.rank) ?? [];
  if (rank === undefined) return step > 0 ? ranks[0] : ranks.at(-1);
  return ranks[ranks.indexOf(rank) + step] ?? rank;
}

/** What a saved page contains. */
function savedStart(): DashboardStart | undefined {
  const text = document.getElementById('saved')?.textContent;
  return text === undefined || text === null ? undefined : (JSON.parse(text) as DashboardStart);
}

start();
