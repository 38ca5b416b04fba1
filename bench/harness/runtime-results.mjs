// What a result of bench/runtime.mjs says: medians, targets, tables for people, notes.
import { compressorNames } from '../ranks/compressor-choice.mjs';
import { disturbedRuns, failedJobs, fewRounds } from './notes.mjs';
import { MiB } from './options.mjs';
import { TOPICS } from './runtime-jobs.mjs';
import { formatBytes, formatUs } from './tables.mjs';

/** Share of the time that watching may cost. */
const COST_LIMIT = 0.01;
/** Points of accuracy that a compressor may cost on MNIST. */
const ACCURACY_LIMIT = 0.3;

/** What `on` takes longer than `off`, as a share; rates turn round. */
export function cost(series, topic, key) {
  const { off, on } = series[topic] ?? {};
  const [without, withIt] = [off?.[key]?.median, on?.[key]?.median];
  if (without === undefined || withIt === undefined) return undefined;
  return key.includes('per second') ? without / withIt - 1 : withIt / without - 1;
}

export function judgeRuntime(series) {
  const judged = [];
  const training = cost(series, 'timeline', 'images per second');
  if (training !== undefined) {
    judged.push({
      target: `timeline: training at most ${COST_LIMIT * 100} % slower`,
      met: training <= COST_LIMIT,
    });
  }
  const accuracy = series.accuracy ?? {};
  for (const name of compressorNames.filter((each) => each !== 'none')) {
    const [plain, own] = [accuracy.none?.accuracy?.median, accuracy[name]?.accuracy?.median];
    if (plain === undefined || own === undefined) continue;
    const target = `${name}: accuracy on MNIST within ${ACCURACY_LIMIT} points`;
    judged.push({ target, met: own >= plain - ACCURACY_LIMIT });
  }
  return judged;
}

export function buildRuntimeTables(result) {
  const { series } = result;
  return [
    costTable(series, 'recorder', 'The flight recorder: µs of an operation, 2 ranks'),
    costTable(series, 'timeline', 'The timeline: training and a loop of collectives, 2 ranks'),
    autotuneTable(series.autotune),
    compressorTable(series['compressors-100mbit'], 'Compressors between 2 hosts, 100 Mbit/s'),
    compressorTable(series['compressors-1gbit'], 'Compressors between 2 hosts, 1 Gbit/s'),
    accuracyTable(series.accuracy),
    targetTable(result.targets),
  ].filter((table) => table !== undefined && table.rows.length > 0);
}

function costTable(series, topic, title) {
  if (series[topic]?.off === undefined || series[topic].on === undefined) return undefined;
  const rows = Object.keys(series[topic].off).map((key) => {
    const [off, on] = [series[topic].off[key], series[topic].on[key]];
    const share = cost(series, topic, key);
    return [
      keyText(key),
      range(off),
      on === undefined ? 'failed' : range(on),
      share === undefined ? '–' : percent(share),
    ];
  });
  return { title, head: ['', 'off', 'on', 'cost'], rows };
}

/** `horovod 65536`: the variants of ranks/collectives.mjs by size. */
function keyText(key) {
  const [, variant, bytes] = /^(\S+) (\d+)$/.exec(key) ?? [];
  return bytes === undefined ? key : `${variant} ${formatBytes(Number(bytes))}`;
}

function autotuneTable(series) {
  if (series === undefined) return undefined;
  const rows = Object.entries(series).map(([workload, keys]) => [
    workload,
    ms(keys.beforeMs),
    ms(keys.afterMs),
    percent(keys.gain?.median ?? 0),
    keys.noise === undefined ? '–' : percent(keys.noise.median),
    String(keys.samples?.median ?? '–'),
    keys.seconds === undefined ? '–' : keys.seconds.median.toFixed(0),
  ]);
  const text =
    'A step before and after tuning, measured alternately by the tuner, which ignores gains below the noise.';
  const head = ['workload', 'before, ms', 'after, ms', 'gain', 'noise', 'samples', 'seconds'];
  return { title: 'Autotune between 2 hosts, 1 Gbit/s', text, head, rows };
}

function compressorTable(series, title) {
  if (series === undefined) return undefined;
  const rows = compressorNames.flatMap((name) => {
    const keys = series[name] ?? {};
    return Object.keys(keys)
      .filter((key) => key.startsWith('us '))
      .map((key) => {
        const bytes = key.slice('us '.length);
        const [us, plain] = [keys[key].median, series.none?.[key]?.median];
        return [
          name,
          formatBytes(Number(bytes)),
          `${formatUs(us / 1000)}`,
          plain === undefined ? '–' : `${(plain / us).toFixed(2)} ×`,
          (keys[`sent ${bytes}`].median / MiB).toFixed(2),
          keys[`error ${bytes}`].median.toExponential(1),
        ];
      });
  });
  const text =
    'One allreduce of a square gradient, including compression. MiB sent: bytes on the network interface of a host, including headers. Error: of the mean of six calls.';
  return { title, text, head: ['compressor', 'gradient', 'ms', 'faster', 'MiB sent', 'error'], rows };
}

function accuracyTable(series) {
  if (series === undefined) return undefined;
  const plain = series.none?.accuracy?.median;
  const rows = compressorNames
    .filter((name) => series[name] !== undefined)
    .map((name) => {
      const { accuracy, bytes, seconds } = series[name];
      const difference = plain === undefined ? 0 : accuracy.median - plain;
      return [
        name,
        `${accuracy.median.toFixed(2)} %`,
        difference.toFixed(2),
        (bytes.median / 1024).toFixed(0),
        seconds.median.toFixed(0),
      ];
    });
  const head = ['compressor', 'accuracy', 'points to none', 'KiB per step', 'seconds'];
  return { title: 'Accuracy on MNIST, 2 ranks', head, rows };
}

function targetTable(targets) {
  const rows = targets.map(({ target, met }) => [target, met ? 'met' : 'missed']);
  return { title: 'Targets', head: ['target', ''], rows };
}

export function runtimeNotes({ failures, runs, idleness, options }) {
  const sentences = failedJobs(failures);
  // What runs on hosts in a box is not a child of the benchmark, and its time counts as foreign.
  const here = runs.filter(({ topic }) => TOPICS[topic]?.hosts === 1);
  const disturbed = disturbedRuns(here);
  if (disturbed.length > 0)
    sentences.push(`The machine was not idle in ${disturbed.length} of ${here.length} runs.`);
  if (!idleness.before.idle)
    sentences.push(`The machine was not idle at the start: load ${idleness.before.load[0]}.`);
  return [...sentences, ...fewRounds(options, 3)];
}

const range = ({ median, low, high }) => `${formatUs(median)} (${formatUs(low)}–${formatUs(high)})`;
const ms = (figure) => (figure === undefined ? '–' : figure.median.toFixed(1));
const percent = (share) => `${(share * 100).toFixed(1)} %`;
