// What a result of bench/training.mjs says: medians over the rounds, ratios (taken round by round, so that drift of the machine
// cancels out), targets, and the tables for people.
import { disturbedRuns, failedJobs, fewRounds } from './notes.mjs';
import { summarize } from './rounds.mjs';

const HOROVOD_TORCH_CNN = 1480; // images per second, the best of three runs on two cores; horovodrun with PyTorch 2.13

const BACKENDS = {
  wasm: 'wasm, Horovod’s kernels',
  'wasm-module': 'wasm, Horovod’s kernels as WebAssembly',
  'wasm-stock': 'wasm, stock',
  cpu: 'cpu',
  tensorflow: 'tfjs-node',
  torch: 'PyTorch',
};
const WAY_NAMES = {
  alone: '1 process, no Horovod',
  ranks: '**2 ranks**',
  apart: '2 separate processes',
  threads: '1 process, 2 threads',
  ddp: '2 ranks, DistributedDataParallel',
  horovod: '2 ranks, Python Horovod',
};
const MODELS = {
  mlp: 'MLP 784-512-512-10',
  cnn: 'CNN conv32-conv64-pool-dense128',
};

/** A target compares two series: their ratio, divided by `divisor`, must reach `limit`. */
export const TARGETS = [
  efficiency('mlp', 'wasm', 0.95),
  efficiency('cnn', 'wasm', 0.98),
  efficiency('mlp', 'tensorflow', 0.93),
  efficiency('cnn', 'tensorflow', 0.97),
  {
    what: 'MLP, wasm: 2 ranks against 2 threads',
    ours: 'mlp wasm ranks',
    other: 'mlp wasm threads',
    limit: 1,
  },
  {
    what: 'CNN, wasm: 2 ranks against 2 threads',
    ours: 'cnn wasm ranks',
    other: 'cnn wasm threads',
    limit: 1,
  },
  ...['mlp', 'cnn'].flatMap((model) => [
    {
      what: `${model.toUpperCase()}: kernels of the addon against the same as WebAssembly`,
      ours: `${model} wasm alone`,
      other: `${model} wasm-module alone`,
      limit: model === 'mlp' ? 1.8 : 2,
    },
    ...['alone', 'ranks'].flatMap((way) =>
      (way === 'alone' ? ['tensorflow alone'] : ['torch horovod', 'torch ddp']).map((other) => ({
        what: `${model.toUpperCase()}, wasm, ${WAY_NAMES[way].replaceAll('*', '')}: against ${other}`,
        ours: `${model} wasm ${way}`,
        other: `${model} ${other}`,
        limit: 1,
      })),
    ),
  ]),
  {
    what: 'MLP: our wasm kernels against stock',
    ours: 'mlp wasm alone',
    other: 'mlp wasm-stock alone',
    limit: 5,
  },
  { what: 'CNN: our wasm kernels against cpu', ours: 'cnn wasm alone', other: 'cnn cpu alone', limit: 100 },
  {
    what: `CNN, tfjs-node: 2 ranks against Horovod with PyTorch (${HOROVOD_TORCH_CNN} images/s elsewhere)`,
    ours: 'cnn tensorflow ranks',
    constant: HOROVOD_TORCH_CNN,
    limit: 1,
  },
  {
    what: 'CNN, tfjs-node: 2 ranks against DistributedDataParallel here',
    ours: 'cnn tensorflow ranks',
    other: 'cnn torch ddp',
    limit: 1,
  },
];

function efficiency(model, backend, limit) {
  const [ours, other] = ['ranks', 'alone'].map((way) => `${model} ${backend} ${way}`);
  return {
    what: `${model.toUpperCase()}, ${BACKENDS[backend]}: scaling efficiency`,
    ours,
    other,
    divisor: 2,
    limit,
  };
}

/** `series` from `[{ name, round, rate }]`: by name, the rates by round and their median. */
export function gather(samples) {
  const series = {};
  for (const { name, round, rate } of samples) {
    series[name] ??= { byRound: {} };
    series[name].byRound[round] = rate;
  }
  for (const each of Object.values(series)) {
    const { us: rate, low, high } = summarize(Object.values(each.byRound));
    Object.assign(each, { rate, low, high });
  }
  return series;
}

/** The ratio of two series over the rounds that have both (a series of one round counts for all). */
export function ratio(series, ours, other, divisor = 1) {
  const [a, b] = [series[ours], series[other]];
  if (!a || !b) return undefined;
  const isOnce = Object.keys(b.byRound).length === 1;
  const ratios = Object.entries(a.byRound)
    .map(([round, rate]) => rate / ((isOnce ? b.rate : b.byRound[round]) * divisor))
    .filter(Number.isFinite);
  if (ratios.length === 0) return undefined;
  const { us: value, low, high } = summarize(ratios);
  return { value, low, high };
}

export function judge(target, series) {
  const { ours, other, constant, divisor, limit } = target;
  const found =
    constant === undefined
      ? ratio(series, ours, other, divisor)
      : series[ours] && {
          value: series[ours].rate / constant,
          low: series[ours].low / constant,
          high: series[ours].high / constant,
        };
  return found ? { target, ...found, met: found.value >= limit } : { target };
}

export function buildTables(result) {
  const { series, timelines, batches } = result;
  const tables = [];
  for (const [model, title] of Object.entries(MODELS)) {
    const names = Object.keys(series).filter((name) => name.startsWith(`${model} `));
    if (names.length === 0) continue;
    const rows = names.map((name) => {
      const [, backend, way] = name.split(' ');
      const { rate, low, high } = series[name];
      const processes = way === 'ranks' || way === 'apart' || way === 'ddp' || way === 'horovod' ? 2 : 1;
      const against = ratio(series, name, `${model} ${backend} alone`, processes);
      return [
        BACKENDS[backend],
        WAY_NAMES[way],
        number(rate),
        `${number(low)} … ${number(high)}`,
        ((processes * batches[name] * 1000) / rate).toFixed(1),
        way === 'alone' || !against ? '' : against.value.toFixed(3),
      ];
    });
    tables.push({
      title: `${title}, batch of 64 per process`,
      text: `Images per second of all processes together, ${result.options.optimizer.toUpperCase()}, synthetic data. Efficiency: compared with the same multiple of one process. Two separate processes show the limit of the machine.`,
      head: ['backend', 'how', 'images/s', 'range', 'ms per step', 'efficiency'],
      rows,
    });
  }
  const steps = Object.entries(timelines).map(([name, phases]) => {
    const [model, backend] = name.split(' ');
    const { forwardMs, backwardMs, exposedCommunicationMs, updateMs } = phases;
    const cells = [forwardMs, backwardMs, exposedCommunicationMs, updateMs].map((ms) => ms.toFixed(2));
    const total = forwardMs + backwardMs + exposedCommunicationMs + updateMs;
    return [
      `${model.toUpperCase()}, ${BACKENDS[backend]}`,
      ...cells,
      percent(exposedCommunicationMs / total),
    ];
  });
  if (steps.length > 0)
    tables.push({
      title: 'The timeline of a step',
      text: 'ms on rank 0 of 2, medians. Exposed communication is what backpropagation does not hide, including the wait for the other rank.',
      head: ['case', 'forward', 'backward', 'exposed communication', 'update', 'its share'],
      rows: steps,
    });
  const steady = Object.entries(result.steadiness ?? {}).map(
    ([name, { p50, p90, p99, scavengesPer1000 }]) => {
      const [model, backend, way] = name.split(' ');
      const times = [p50, p90, p99].map((ms) => ms.toFixed(2));
      return [
        `${model.toUpperCase()}, ${BACKENDS[backend]}`,
        WAY_NAMES[way],
        ...times,
        scavengesPer1000.toFixed(0),
      ];
    },
  );
  if (steady.length > 0)
    tables.push({
      title: 'How steady steps are',
      text: 'ms of a step in the last round, and collections of young objects per 1,000 steps.',
      head: ['case', 'how', 'p50', 'p90', 'p99', 'scavenges'],
      rows: steady,
    });
  tables.push({
    title: 'Targets',
    text: 'Medians of the ratios of each round.',
    head: ['what', 'target', 'measured', 'range', 'met'],
    rows: result.targets.map(({ target, value, low, high, met }) => [
      target.what,
      `≥ ${target.limit}`,
      value === undefined ? 'not measured' : value.toFixed(3),
      value === undefined ? '' : `${low.toFixed(3)} … ${high.toFixed(3)}`,
      met === undefined ? '–' : met ? 'yes' : '**no**',
    ]),
  });
  return tables;
}

export function trainingNotes({ peers, failures, runs, idleness, options }) {
  const missing = Object.entries(peers).filter(([, { ready }]) => !ready);
  const sentences = [...missing.map(([name, { why }]) => `${name}: ${why}.`), ...failedJobs(failures)];
  const disturbed = disturbedRuns(runs).length;
  if (disturbed > 0 || !idleness.before.idle)
    sentences.push(
      `The machine was not idle: other programs ran during ${disturbed} of ${runs.length} runs.`,
    );
  return [...sentences, ...fewRounds(options, 5)];
}

function number(rate) {
  return rate < 10 ? rate.toFixed(2) : Math.round(rate).toLocaleString('en').replaceAll(',', ' ');
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
