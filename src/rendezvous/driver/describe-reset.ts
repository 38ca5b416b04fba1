// A reset of an elastic job in words, for whoever watches it.

import type { Loss, Reset } from './driver-state.ts';

/** All of it is in the rank's own log. */
const maxMessageLength = 200;

/** 'rank 1 on a was killed by SIGKILL; 2 ranks continue after 140 ms, 1 step repeated (generation 2)' */
export function describeReset(reset: Reset): string {
  const { size, tookMs, generation, repeatedSteps } = reset;
  const who = size === 1 ? '1 rank continues' : `${size} ranks continue`;
  const cost = `${Math.round(tookMs)} ms, ${stepsText(repeatedSteps)}`;
  return `${describeChange(reset)}; ${who} after ${cost} (generation ${generation})`;
}

/** 'rank 1 on a was killed by SIGKILL; rank 1 on b has joined' */
export function describeChange({ lost, joined, cause }: Reset): string {
  const changes = [
    ...lost.map(describeLoss),
    ...(cause === undefined
      ? []
      : [`nobody was lost, but rank ${cause.rank} on ${cause.host} reported: ${shortened(cause.message)}`]),
    ...joined.map(({ rank, host }) => `rank ${rank} on ${host} has joined`),
  ];
  return changes.length === 0 ? 'the ranks have formed anew' : changes.join('; ');
}

export function stepsText(steps: number): string {
  return `${steps === 0 ? 'no' : steps} ${steps === 1 ? 'step' : 'steps'} repeated`;
}

function shortened(message: string): string {
  const [line = ''] = message.split('\n');
  return line.slice(0, maxMessageLength).replace(/[.,]$/, '');
}

function describeLoss({ rank, host, how }: Loss): string {
  return `rank ${rank} on ${host} ${how.replace(/[.,]$/, '')}`;
}
