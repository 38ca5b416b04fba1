// One round of a group on the portable plane: post, see all posts, and, where they agree, run the operation.

import { collectiveOf } from '../../collectives/collective.ts';
import type { Steps } from '../../collectives/exchange.ts';
import { runTogether } from '../../collectives/reference.ts';
import type { Round } from '../plane.ts';
import type { GroupFiles } from './group-files.ts';

/** False where the members disagree. A passive member posts only after another one has. */
export function* runRound(
  files: GroupFiles,
  round: Round,
  isPassive: boolean,
  onPosted: () => void,
): Steps<boolean> {
  if (files.size === 1) {
    runTogether([round.operation]);
    return true;
  }
  // Nothing has been written so far: a job that waits here can be taken back without a trace.
  if (isPassive) while (!files.hasAnyPost()) yield 'waiting';
  const collective = collectiveOf(files, round.operation);
  if (collective.payloadBytes > 0) collective.writePayload(files.kernels.staging, files.ownPayloadArea);
  files.post(round, collective);
  onPosted();
  while (!files.hasAllPosts()) yield 'waiting';
  const isAgreed = files.isAgreed();
  if (isAgreed) yield* collective.run();
  files.beginRound();
  return isAgreed;
}
