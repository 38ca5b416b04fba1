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
export async function runRounds(jobs, rounds, { say, signal }) {
  const collected = new Map();
  const runs = [];
  const failures = {};
  let native;
  for (let round = 0; round < rounds; round++) {
    for (const job of rotate(jobs, round, rounds)) {
      if (signal.aborted) throw new Error('interrupted');
      const shares = watchProcessor();
      const start = performance.now();
      const result = await job.run(signal);
      const seconds = Number(((performance.now() - start) / 1000).toFixed(2));
      const { foreign, steal } = shares();
      const disturbed = foreign > FOREIGN_LIMIT || steal > FOREIGN_LIMIT;
      runs.push({ round, job: job.name, seconds, foreign, steal, failure: result.failure });
      if (job.name === 'horovod') native = result.native;
      if (result.failure) failures[job.name] = { topic: job.topic, series: job.series, why: result.failure };
      for (const { peer, bytes, us } of result.samples) {
        const key = JSON.stringify([job.topic, peer, bytes]);
        collected.set(key, [...(collected.get(key) ?? []), us]);
      }
      const note = result.failure ? ` FAILED: ${result.failure}` : disturbed ? ' (machine not idle)' : '';
      say(`round ${round + 1}/${rounds} ${job.name}: ${seconds.toFixed(1)} s${note}`);
    }
  }
  return { series: nest(collected), runs, failures, native };
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
