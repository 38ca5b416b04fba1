// What a result of bench/recovery.mjs says: medians, targets, a table for people, notes.
import { failedJobs, fewRounds } from './notes.mjs';
import { TOPICS } from './recovery-jobs.mjs';

const TITLES = {
  'one-host': 'kill -9 of one of 3 ranks, one host',
  spare: 'the same with --spares 1',
  hosts: 'kill -9 of one of 4 ranks, 2 hosts in a box',
  discovery: 'a second host is discovered',
  commit: 'MLP 784-512-512-10 with Adam, wasm, 2 ranks',
};

/** The most that each may take, in milliseconds. */
const LIMITS = {
  'one-host': {
    'every survivor has done a step, ms': 300,
    'back at full size, ms': 3000,
    'pause of survivors to take it in, ms': 300,
  },
  spare: {
    'every survivor has done a step, ms': 300,
    'back at full size, ms': 1000,
    'pause of survivors to take it in, ms': 300,
  },
  hosts: {
    'every survivor has done a step, ms': 1000,
    'back at full size, ms': 3000,
    'pause of survivors to take it in, ms': 300,
  },
  discovery: {
    'host in the list until its rank has done a step, ms': 3000,
    'pause of survivors to take it in, ms': 300,
  },
};
/** Share of the processor time of a step that its commit may take. */
const COMMIT_LIMIT = 0.01;
/** For which the limit was set. */
const STEP_MS = 8;

export function judgeRecovery(series) {
  const judged = Object.entries(LIMITS).flatMap(([topic, limits]) =>
    Object.entries(limits).flatMap(([key, limit]) => {
      const figure = series[topic]?.horovod?.[key];
      if (figure === undefined) return [];
      return [{ target: `${TITLES[topic]}: ${key} ≤ ${limit}`, met: figure.median <= limit }];
    }),
  );
  for (const { what, share } of commitShares(series))
    judged.push({ target: `${what} ≤ ${COMMIT_LIMIT * 100} %`, met: share <= COMMIT_LIMIT });
  return judged;
}

function commitShares(series) {
  const figures = series.commit?.horovod;
  if (figures === undefined) return [];
  const median = (key) => figures[key].median;
  return [
    {
      what: 'a commit after every step, of the processor time',
      share:
        median('difference within a pair, processor time, ms') /
        median('processor time of a step without commits, ms'),
    },
    { what: `a commit alone, of a step of ${STEP_MS} ms`, share: median('commit alone, ms') / STEP_MS },
  ];
}

export function buildRecoveryTables({ series, targets }) {
  const rows = Object.keys(TOPICS).flatMap((topic) =>
    Object.entries(series[topic]?.horovod ?? {}).map(([key, { median, low, high }]) => [
      TITLES[topic],
      key,
      number(median),
      `${number(low)} … ${number(high)}`,
      LIMITS[topic]?.[key] === undefined ? '' : `≤ ${LIMITS[topic][key]}`,
    ]),
  );
  for (const { what, share } of commitShares(series))
    rows.push([TITLES.commit, what, `${(share * 100).toFixed(1)} %`, '', `≤ ${COMMIT_LIMIT * 100} %`]);
  return [
    { title: 'Recovery', head: ['what happens', 'figure', 'median', 'range', 'target'], rows },
    {
      title: 'Targets',
      head: ['target', ''],
      rows: targets.map(({ target, met }) => [target, met ? 'met' : 'missed']),
    },
  ].filter((table) => table.rows.length > 0);
}

export function recoveryNotes({ failures, idleness, options }) {
  const sentences = failedJobs(failures);
  if (!idleness.before.idle)
    sentences.push(`The machine was not idle at the start: load ${idleness.before.load[0]}.`);
  return [...sentences, ...fewRounds(options, 3)];
}

const number = (value) => (value < 1 ? value.toFixed(3) : value < 100 ? value.toFixed(2) : value.toFixed(0));
