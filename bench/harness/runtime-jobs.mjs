// The jobs of one round of bench/runtime.mjs. Each starts one program, on this machine or on two hosts in a box with a slow line
// between them, and gives samples `{ topic, series, key, value }`: a figure of one series, by what the key says.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { compressorNames } from '../ranks/compressor-choice.mjs';
import { lastWords, setRates } from './cluster-jobs.mjs';
import { explainFailure, jsonLines, runCommand } from './command.mjs';
import { cleanEnvironment } from './jobs.mjs';
import { KiB, MiB } from './options.mjs';

const DEADLINE_MS = 900_000;

export const TOPICS = {
  recorder: { hosts: 1 },
  timeline: { hosts: 1 },
  autotune: { hosts: 2, rate: '1gbit' },
  'compressors-100mbit': { hosts: 2, rate: '100mbit' },
  'compressors-1gbit': { hosts: 2, rate: '1gbit' },
  accuracy: { hosts: 1 },
};

const WORKLOADS = ['optimizer', 'compression', 'promises'];

/** @param setup `{ box, topics, quick, benchFolder, root }` */
export function planRuntimeJobs(setup) {
  const plans = {
    recorder: () => recorder(setup),
    timeline: () => timeline(setup),
    autotune: () => WORKLOADS.map((workload) => autotune(setup, workload)),
    'compressors-100mbit': () => compressors(setup, 'compressors-100mbit'),
    'compressors-1gbit': () => compressors(setup, 'compressors-1gbit'),
    accuracy: () => accuracy(setup),
  };
  return setup.topics.flatMap((topic) => plans[topic]());
}

/** The smallest operations: there it would show. */
function recorder(setup) {
  const variants = { off: { HOROVOD_FLIGHT_RECORDS: '0' }, on: {} };
  return Object.entries(variants).map(([series, env]) =>
    job(setup, {
      topic: 'recorder',
      name: `flight recorder ${series}`,
      series,
      env,
      script: 'collectives.mjs',
      args: ['--variants', 'horovod,prepared,await', '--sizes', `4,${64 * KiB}`],
      toSamples: (lines) =>
        lines
          .filter(({ us }) => typeof us === 'number')
          .map(({ peer, bytes, us }) => ({ series, key: `${peer} ${bytes}`, value: us })),
    }),
  );
}

/** Training, which is what a timeline is of, and a loop of nothing but collectives. */
function timeline(setup) {
  const programs = [
    {
      script: 'training.mjs',
      library: 'dist/tensorflow.js',
      args: ['--horovod', '--model', 'mlp', '--backend', 'wasm', '--windows', setup.quick ? '3' : '9'],
      toSamples: (lines) =>
        lines.filter(({ rate }) => rate !== undefined).map(({ rate }) => ['images per second', rate]),
    },
    {
      script: 'collectives.mjs',
      args: ['--variants', 'prepared', '--sizes', String(64 * KiB)],
      toSamples: (lines) =>
        lines.filter(({ us }) => typeof us === 'number').map(({ us }) => ['prepared 64 KiB', us]),
    },
  ];
  return programs.flatMap(({ toSamples, ...program }) =>
    ['off', 'on'].map((series) =>
      job(setup, {
        topic: 'timeline',
        name: `timeline ${series}, ${program.script}`,
        series,
        ...program,
        inDirectory: (directory) =>
          series === 'off' ? {} : { HOROVOD_TIMELINE: path.join(directory, 'timeline.json') },
        toSamples: (lines) => toSamples(lines).map(([key, value]) => ({ series, key, value })),
      }),
    ),
  );
}

function autotune(setup, workload) {
  return job(setup, {
    topic: 'autotune',
    name: `autotune, ${workload}`,
    series: workload,
    script: 'autotune.mjs',
    args: [workload],
    library: null,
    flags: ['--autotune'],
    toSamples: (lines) => {
      const outcome = lines.find(({ beforeMs }) => beforeMs !== undefined);
      if (outcome === undefined) return [];
      return ['beforeMs', 'afterMs', 'gain', 'noise', 'samples', 'seconds']
        .filter((key) => typeof outcome[key] === 'number')
        .map((key) => ({ series: workload, key, value: outcome[key] }));
    },
  });
}

function compressors(setup, topic) {
  const sizes = setup.quick ? [4 * MiB] : [4 * MiB, 16 * MiB];
  return compressorNames.map((name) =>
    job(setup, {
      topic,
      name: `${name}, ${TOPICS[topic].rate}`,
      series: name,
      script: 'compressors.mjs',
      args: ['--compressors', name, '--sizes', sizes.join(','), '--calls', '5'],
      toSamples: (lines) =>
        lines.flatMap(({ compressor, bytes, us, sentBytes, error }) => [
          { series: compressor, key: `us ${bytes}`, value: us },
          { series: compressor, key: `sent ${bytes}`, value: sentBytes },
          { series: compressor, key: `error ${bytes}`, value: error },
        ]),
    }),
  );
}

/** Once: the seeds are fixed, so every run gives the same. */
function accuracy(setup) {
  const one = job(setup, {
    topic: 'accuracy',
    name: 'accuracy on MNIST',
    series: 'accuracy',
    script: 'compression-accuracy.mjs',
    args: setup.quick ? ['--epochs', '1', '--steps', '50'] : [],
    toSamples: (lines) =>
      lines.flatMap(({ compressor, accuracy: percent, receivedBytes, seconds }) => [
        { series: compressor, key: 'accuracy', value: percent },
        { series: compressor, key: 'bytes', value: receivedBytes },
        { series: compressor, key: 'seconds', value: seconds },
      ]),
  });
  return [{ ...one, once: true }];
}

function job(setup, { topic, name, series, script, args, toSamples, ...rest }) {
  const { env = {}, flags = [], inDirectory = () => ({}), library = 'dist/index.js' } = rest;
  const { hosts, rate } = TOPICS[topic];
  const program = [
    path.join(setup.benchFolder, 'ranks', script),
    ...(library === null ? [] : ['--library', path.join(setup.root, library)]),
    ...args,
  ];
  const launcher = [
    path.join(setup.root, 'bin', 'horovodrun.js'),
    '-np',
    '2',
    '--no-prefix-output',
    ...flags,
  ];
  const run = async (signal) => {
    const directory = mkdtempSync(path.join(tmpdir(), 'horovod-bench-'));
    try {
      const extra = { ...env, ...inDirectory(directory) };
      if (hosts === 1) {
        const environment = cleanEnvironment(extra);
        const result = await runCommand(process.execPath, [...launcher, ...program], {
          env: environment,
          signal,
          deadlineMs: DEADLINE_MS,
        });
        return finish(explainFailure(result), result.stdout);
      }
      await setRates(setup.box, rate);
      // Real hosts do not share cores.
      const pinned = ['sh', '-c', 'exec taskset -c "$HOROVOD_RANK" "$@"', 'sh', process.execPath];
      const argv = [process.execPath, ...launcher, '-H', 'host1:1,host2:1', ...pinned, ...program];
      const result = await setup.box.exec('host1', argv, { env: extra, timeoutMs: DEADLINE_MS });
      const { exitCode, stdout, stderr } = result;
      return finish(exitCode === 0 ? undefined : `exit code ${exitCode}: ${lastWords(stderr)}`, stdout);
    } catch (error) {
      return finish(lastWords(error.message), '');
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  };
  const finish = (failure, stdout) => {
    const samples = failure ? [] : toSamples(jsonLines(stdout)).map((sample) => ({ topic, ...sample }));
    return { samples, failure: failure ?? (samples.length === 0 ? 'it printed no figures' : undefined) };
  };
  return { name, topic, series: [series], run };
}
