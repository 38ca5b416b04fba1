// One round of a group on the portable transport: post, read all posts, and, if they agree, run the operation. `Rounds`
// is what a group needs from the carrier of its rounds: the files of one host, or the connections between several.

import { runTogether } from '../group/run-together.ts';
import type { Round } from '../transport.ts';
import { collectiveOf, hostAlgorithms } from './algorithms/collective.ts';
import type { Exchange, Steps } from './algorithms/exchange.ts';
import type { GroupFiles } from './group-files.ts';

export interface Rounds {
  readonly index: number;
  readonly size: number;
  /** Returns false if the members disagree. A passive member posts only after another one has. */
  run(round: Round, isPassive: boolean, onPosted: () => void, onAgreed?: () => void): Steps<boolean>;
  /** Members that have not posted the current round. */
  withoutPost(): number[];
  /** Members that the last poll was waiting for. */
  lacking(): number[];
  close(): void;
}

export function roundsOf(files: GroupFiles): Rounds {
  files.beginRound();
  return {
    index: files.index,
    size: files.size,
    run: (round, isPassive, onPosted, onAgreed) => runRound(files, round, isPassive, onPosted, onAgreed),
    withoutPost: () => files.withoutPost(),
    lacking: () => files.lacking(),
    close: () => files.close(),
  };
}

/** Rounds.run() over the files of one host. */
export function* runRound(
  files: GroupFiles,
  round: Round,
  isPassive: boolean,
  onPosted: () => void,
  onAgreed?: () => void,
): Steps<boolean> {
  if (files.size === 1) {
    runTogether([round.operation]);
    return true;
  }
  // Nothing has been written so far, so a batch that waits here can be taken back.
  if (isPassive) while (!files.hasAnyPost()) yield 'waiting';
  const collective = collectiveOf<Exchange>(hostAlgorithms, files, round.operation);
  if (collective.payloadBytes > 0) collective.writePayload(files.kernels.staging, files.ownPayloadArea);
  files.post(round, collective);
  onPosted();
  while (!files.hasAllPosts()) yield 'waiting';
  const isAgreed = files.isAgreed();
  if (isAgreed) {
    onAgreed?.();
    yield* collective.run();
  }
  files.beginRound();
  return isAgreed;
}
