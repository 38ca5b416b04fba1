// --tensorboard-keep: TensorBoard stays after its job, until Ctrl-C.

import { deferred } from '../deferred.ts';
import type { TensorBoardProcess } from './tensorboard-process.ts';

/** Resolves when a signal comes, or when TensorBoard has ended by itself. `onKept` gets what receives the signal. */
export async function keepTensorBoard(
  tensorboard: TensorBoardProcess,
  say: (text: string) => void,
  onKept: (keeper: { interrupt(): void }) => void,
): Promise<void> {
  const over = deferred();
  onKept({ interrupt: () => over.resolve() });
  const url = await Promise.race([tensorboard.up, over.promise]);
  // It has said why it is not there.
  if (typeof url !== 'string') return;
  say(`The job has ended; TensorBoard stays at ${url} until Ctrl-C (--tensorboard-keep).`);
  await Promise.race([over.promise, tensorboard.ended]);
}
