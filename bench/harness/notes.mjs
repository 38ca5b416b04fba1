// What a reader must know besides the tables: peers that are missing or were left out, jobs that failed, runs during
// which the machine was not idle, and a build without its native addon. One sentence each.
import { FOREIGN_LIMIT } from './machine.mjs';
import { PEERS } from './options.mjs';

export function notes(result) {
  const { peers, failures, runs, idleness, native, options } = result;
  const sentences = [];
  for (const name of PEERS) {
    if (!peers[name]) sentences.push(`${name}: left out.`);
    else if (!peers[name].ready) sentences.push(`${name}: missing: ${peers[name].why}.`);
  }
  for (const [job, { why }] of Object.entries(failures)) sentences.push(`${job}: failed: ${why}.`);
  if (native === false) {
    sentences.push('The native addon is not built here: every figure of ours is the portable transport.');
  }
  const disturbed = runs.filter(({ foreign, steal }) => foreign > FOREIGN_LIMIT || steal > FOREIGN_LIMIT);
  if (disturbed.length > 0) {
    const most = Math.max(...disturbed.map(({ foreign, steal }) => Math.max(foreign, steal)));
    sentences.push(
      `The machine was not idle: in ${disturbed.length} of ${runs.length} runs something else took more than ${percent(FOREIGN_LIMIT)} of the processor (at most ${percent(most)}).`,
    );
  }
  if (!idleness.before.idle) {
    sentences.push(
      `The machine was not idle at the start: load ${idleness.before.load[0]}, foreign ${percent(idleness.before.foreign)}.`,
    );
  }
  if (options.quick || options.rounds < 5) {
    sentences.push(`Only ${options.rounds} round${options.rounds === 1 ? '' : 's'}: a look, not a result.`);
  }
  return sentences;
}

export function renderNotes(sentences) {
  return sentences.length === 0
    ? ''
    : `## Notes\n\n${sentences.map((sentence) => `- ${sentence}\n`).join('')}\n`;
}

function percent(share) {
  return `${Number((share * 100).toFixed(1))} %`;
}
