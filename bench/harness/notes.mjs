// What a reader must know besides the tables: peers that are missing or were left out, jobs that failed, runs during
// which the machine was not idle, and a build without its native addon. One sentence each.
import { PEERS } from './collectives-options.mjs';
import { FOREIGN_LIMIT } from './machine.mjs';

/** The notes of bench:collectives. */
export function notes(result) {
  const { peers, failures, runs, idleness, native, options } = result;
  const leftOut = PEERS.filter((name) => !peers[name]).map((name) => `${name}: left out.`);
  const sentences = [...leftOut, ...missingPeers(peers), ...failedJobs(failures)];
  if (native === false) {
    sentences.push(
      'The native addon is not built here: all figures of Horovod are those of the portable transport.',
    );
  }
  const disturbed = disturbedRuns(runs);
  if (disturbed.length > 0) {
    const max = Math.max(...disturbed.map(({ foreign, steal }) => Math.max(foreign, steal)));
    sentences.push(
      `The machine was not idle: in ${disturbed.length} of ${runs.length} runs other programs took more than ${percent(FOREIGN_LIMIT)} of the processor (at most ${percent(max)}).`,
    );
  }
  if (!idleness.before.idle) {
    sentences.push(
      `The machine was not idle at the start: load ${idleness.before.load[0]}, foreign ${percent(idleness.before.foreign)}.`,
    );
  }
  return [...sentences, ...fewRounds(options, 5)];
}

export function missingPeers(peers) {
  return Object.entries(peers)
    .filter(([, { ready }]) => !ready)
    .map(([name, { why }]) => `${name}: missing: ${why}.`);
}

export function failedJobs(failures) {
  return Object.entries(failures).map(([job, { why }]) => `${job}: failed: ${why}.`);
}

/** Runs during which something else used the processor. */
export function disturbedRuns(runs) {
  return runs.filter(({ foreign, steal }) => foreign > FOREIGN_LIMIT || steal > FOREIGN_LIMIT);
}

export function fewRounds({ quick, rounds }, minRounds) {
  if (!quick && rounds >= minRounds) return [];
  return [`Only ${rounds} round${rounds === 1 ? '' : 's'}: a quick check, not a result.`];
}

export function renderNotes(sentences) {
  return sentences.length === 0
    ? ''
    : `## Notes\n\n${sentences.map((sentence) => `- ${sentence}\n`).join('')}\n`;
}

function percent(share) {
  return `${Number((share * 100).toFixed(1))} %`;
}
