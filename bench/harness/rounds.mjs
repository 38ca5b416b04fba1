// Runs every job once a round, in rotating order, and gathers the figures: the median over the rounds of what each run
// reported as its own median, with the lowest and highest beside it. Interleaving makes slow drift of the machine hit
// all peers alike; rotating keeps any of them from always running after the same neighbour has heated the caches.
import { FOREIGN_LIMIT, watchProcessor } from './machine.mjs';

/** The order of a round: each round starts further along, spread evenly over the list. */
export function rotate(jobs, round, rounds) {
  const shift = Math.floor((round * jobs.length) / rounds) % jobs.length;
  return [...jobs.slice(shift), ...jobs.slice(0, shift)];
}

/** @returns `{ series, runs, failures, native }`; series by topic, peer and bytes. */
export async function runRounds(jobs, rounds, watch) {
  const collected = new Map();
  let native;
  const rest = await interleave(jobs, rounds, watch, (job, result) => {
    if (job.name === 'horovod') native = result.native;
    for (const { peer, bytes, us } of result.samples) {
      const key = JSON.stringify([job.topic, peer, bytes]);
      collected.set(key, [...(collected.get(key) ?? []), us]);
    }
  });
  return { series: nest(collected), ...rest, native };
}

/**
 * Runs the jobs and hands each result over as it comes; a job with `once` takes part in the first round only.
 * @returns `{ runs, failures }`
 */
export async function interleave(jobs, rounds, { say, signal }, onResult) {
  const runs = [];
  const failures = {};
  for (let round = 0; round < rounds; round++) {
    for (const job of rotate(jobs, round, rounds)) {
      if (job.once && round > 0) continue;
      if (signal.aborted) throw new Error('interrupted');
      const shares = watchProcessor();
      const start = performance.now();
      const result = await job.run(signal);
      const seconds = Number(((performance.now() - start) / 1000).toFixed(2));
      const { foreign, steal } = shares();
      const disturbed = foreign > FOREIGN_LIMIT || steal > FOREIGN_LIMIT;
      runs.push({ round, job: job.name, topic: job.topic, seconds, foreign, steal, failure: result.failure });
      if (result.failure) failures[job.name] = { topic: job.topic, series: job.series, why: result.failure };
      onResult(job, result, round);
      const note = result.failure ? ` FAILED: ${result.failure}` : disturbed ? ' (machine not idle)' : '';
      say(`round ${round + 1}/${rounds} ${job.name}: ${seconds.toFixed(1)} s${note}`);
    }
  }
  return { runs, failures };
}

export function summarize(us) {
  const sorted = [...us].sort((a, b) => a - b);
  const [lower, upper] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return { us: (lower + upper) / 2, low: sorted[0], high: sorted[sorted.length - 1], runs: us };
}

function nest(collected) {
  const series = {};
  for (const [key, us] of collected) {
    const [topic, peer, bytes] = JSON.parse(key);
    series[topic] ??= {};
    series[topic][peer] ??= {};
    series[topic][peer][bytes] = summarize(us);
  }
  return series;
}

/** Samples `{ topic, series, key, value }` by topic, series and key: the median over the rounds with the extremes beside it. */
export function gatherSamples(samples) {
  const series = {};
  for (const { topic, series: name, key, value } of samples) {
    series[topic] ??= {};
    series[topic][name] ??= {};
    series[topic][name][key] ??= [];
    series[topic][name][key].push(value);
  }
  return mapLeaves(series, (values) => {
    const { us: median, low, high, runs } = summarize(values);
    return { median, low, high, runs };
  });
}

function mapLeaves(series, summary) {
  return Object.fromEntries(
    Object.entries(series).map(([topic, names]) => [
      topic,
      Object.fromEntries(
        Object.entries(names).map(([name, keys]) => [
          name,
          Object.fromEntries(Object.entries(keys).map(([key, values]) => [key, summary(values)])),
        ]),
      ),
    ]),
  );
}
