// The file beside a model with the error feedback of lossy compression: what each rank had not sent yet. model.json has its
// name, checksum and shapes; TensorFlow.js ignores that entry, so the model loads everywhere.

import { HorovodError } from '../../../errors.ts';
import { readFile, readTextFile } from '../../../files/read-file.ts';
import { fileSystems } from '../../file-systems.ts';
import type { ErrorFeedbackState } from '../../tensorflow/optimizer/error-feedback.ts';
import { besideModelJson, modelJsonIn } from './location.ts';
import { type ErrorFeedbackEntry, type ModelJsonExtras, sha256 } from './write-model.ts';

/** A model that is replaced while it is read is read again. */
const maxAttempts = 5;

/** What a model was saved with; undefined if it has no error feedback. */
export async function readErrorFeedback(location: string | URL): Promise<ErrorFeedbackState | undefined> {
  const modelJson = modelJsonIn(location);
  for (let attempt = 1; ; attempt++) {
    const entry = await entryIn(modelJson);
    if (entry === undefined) return undefined;
    const file = besideModelJson(modelJson, entry.file);
    const bytes = await readFile(fileSystems(), file).catch((cause: Error) => cause);
    if (!(bytes instanceof Error) && sha256(bytes) === entry.sha256) return stateOf(entry, bytes);
    // A newer model may have taken the place of the one whose file this was.
    if (attempt < maxAttempts && (await entryIn(modelJson))?.sha256 !== entry.sha256) continue;
    throw new HorovodError(
      'ERR_HVD_MODEL_FILE',
      `The model ${modelJson} was saved with error feedback of compression, and ${file} ` +
        `${bytes instanceof Error ? `cannot be read (${bytes.message})` : 'is not what was saved (its checksum differs)'}. ` +
        'Copy it too, or take the entry "errorFeedback" out of model.json to begin without it.',
      { cause: bytes instanceof Error ? bytes : undefined },
    );
  }
}

/** All residuals of the first rank, then those of the next …; then what the ranks share. */
export function errorFeedbackBytes(state: ErrorFeedbackState): {
  readonly bytes: Uint8Array;
  readonly entry: Omit<ErrorFeedbackEntry, 'file' | 'sha256'>;
} {
  const saved = state.tensors.filter((tensor) => tensor !== null);
  const ranks = saved[0]?.residuals.length ?? 0;
  const pieces: Float32Array[] = [];
  for (let rank = 0; rank < ranks; rank++) {
    for (const { residuals } of saved) pieces.push(residuals[rank] as Float32Array);
  }
  for (const { shared } of saved) pieces.push(...Object.values(shared));
  const bytes = Buffer.concat(
    pieces.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
  );
  const tensors = state.tensors.map((tensor) =>
    tensor === null
      ? null
      : {
          shape: tensor.shape,
          shared: Object.fromEntries(
            Object.entries(tensor.shared).map(([name, { length }]) => [name, length]),
          ),
        },
  );
  return { bytes, entry: { compressor: state.compressor, op: state.op, ranks, tensors } };
}

function stateOf(
  { compressor, op, ranks, tensors }: ErrorFeedbackEntry,
  bytes: Uint8Array,
): ErrorFeedbackState {
  let at = 0;
  const take = (length: number) => {
    at += 4 * length;
    return new Float32Array(bytes.slice(at - 4 * length, at).buffer);
  };
  const residuals: Float32Array[][] = tensors.map(() => []);
  for (let rank = 0; rank < ranks; rank++) {
    tensors.forEach((tensor, i) => {
      if (tensor !== null) residuals[i]?.push(take(tensor.shape.reduce((product, n) => product * n, 1)));
    });
  }
  return {
    compressor,
    op,
    tensors: tensors.map((tensor, i) =>
      tensor === null
        ? null
        : {
            shape: tensor.shape,
            residuals: residuals[i] as Float32Array[],
            shared: Object.fromEntries(
              Object.entries(tensor.shared).map(([name, length]) => [name, take(length)]),
            ),
          },
    ),
  };
}

async function entryIn(modelJson: string): Promise<ErrorFeedbackEntry | undefined> {
  const { horovod } = JSON.parse(await readTextFile(fileSystems(), modelJson)) as ModelJsonExtras;
  return horovod?.errorFeedback;
}
