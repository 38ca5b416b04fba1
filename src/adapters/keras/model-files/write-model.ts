// Writes a model as TensorFlow.js does, model.json beside weights.bin, such that a crash at any moment leaves either
// the old model or the new one.
//
// NOTE [Two files, one switch]. model.json names the file its weights are in. New weights go to a name the present
// model.json does not use (weights.bin and weights.alternate.bin take turns); only when they are on the disk is
// model.json replaced, by a rename, which is atomic; then the old weights are removed. A checksum in model.json
// ties the two together: a reader that has seen the old model.json and the new weights notices and reads again.

import { createHash, randomUUID } from 'node:crypto';
import * as tf from '@tensorflow/tfjs';
import type { DataState } from '../../../data/order/state.ts';
import { HorovodError } from '../../../errors.ts';
import { joinLocation } from '../../../files/location.ts';
import { readTextFile } from '../../../files/read-file.ts';
import { fileSystems } from '../../file-systems.ts';
import { writeWithProgress } from './file-progress.ts';

/** What model.json has besides TensorFlow.js's own keys, which ignores it. */
export interface ModelJsonExtras {
  horovod?: { weightsSha256?: string; errorFeedback?: ErrorFeedbackEntry; data?: DataState };
}

/** Of the file that error-feedback-file.ts reads. */
export interface ErrorFeedbackEntry {
  readonly file: string;
  readonly sha256: string;
  readonly compressor: string;
  readonly op: string;
  readonly ranks: number;
  /** `shared`: how many numbers each of the arrays has. */
  readonly tensors: readonly ({ shape: readonly number[]; shared: Record<string, number> } | null)[];
}

const weightNames = ['weights.bin', 'weights.alternate.bin'] as const;
const errorFeedbackNames = ['error-feedback.bin', 'error-feedback.alternate.bin'] as const;

/** What is saved with a model besides what TensorFlow.js saves. */
export interface ModelExtras {
  readonly errorFeedback?:
    | { readonly bytes: Uint8Array; readonly entry: Omit<ErrorFeedbackEntry, 'file' | 'sha256'> }
    | undefined;
  /** Where training is in its data. */
  readonly data?: DataState | undefined;
}

/** Writes the model into a folder, which is made if need be. */
export async function writeModel(
  folder: string,
  artifacts: tf.io.ModelArtifacts,
  { errorFeedback, data }: ModelExtras = {},
): Promise<tf.io.SaveResult> {
  const { weightData, weightSpecs, ...description } = artifacts;
  const weights = tf.io.CompositeArrayBuffer.join(weightData ?? new ArrayBuffer(0));
  const modelJson = joinLocation(folder, 'model.json');
  try {
    const fileSystem = await fileSystems().fileSystem(folder);
    await fileSystem.mkdir(folder);
    const used = await pathsIn(modelJson);
    const weightsName = weightNames.find((name) => !used.includes(name)) ?? `weights.${randomUUID()}.bin`;
    await writeWithProgress(joinLocation(folder, weightsName), new Uint8Array(weights));
    const feedbackName = errorFeedbackNames.find((name) => !used.includes(name)) ?? errorFeedbackNames[0];
    if (errorFeedback !== undefined)
      await writeWithProgress(joinLocation(folder, feedbackName), errorFeedback.bytes);
    const content: tf.io.ModelJSON & ModelJsonExtras = {
      ...(description as Omit<tf.io.ModelJSON, 'weightsManifest'>),
      weightsManifest: [{ paths: [weightsName], weights: weightSpecs ?? [] }],
      horovod: {
        weightsSha256: sha256(new Uint8Array(weights)),
        ...(data && { data }),
        ...(errorFeedback && {
          errorFeedback: { file: feedbackName, sha256: sha256(errorFeedback.bytes), ...errorFeedback.entry },
        }),
      },
    };
    await writeWithProgress(modelJson, Buffer.from(JSON.stringify(content)));
    // The new model stands; old weights that cannot be removed only take room.
    const current = [weightsName, ...(errorFeedback === undefined ? [] : [feedbackName])];
    const outdated = [...weightNames, ...errorFeedbackNames].filter((name) => !current.includes(name));
    await Promise.allSettled(outdated.map((name) => fileSystem.remove(joinLocation(folder, name))));
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_MODEL_FILE',
      `The model could not be written to ${folder}: ${reasonOf(cause)} What was saved there before is untouched.`,
      { cause },
    );
  }
  return { modelArtifactsInfo: tf.io.getModelArtifactsInfoForJSON({ ...artifacts, weightData: weights }) };
}

/** The text of an error without its code, as a sentence. */
export function reasonOf(error: unknown): string {
  const text = HorovodError.is(error) ? error.detail : (error as Error).message;
  return text.endsWith('.') ? text : `${text}.`;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The files a model.json names; none if there is no readable one. */
async function pathsIn(modelJson: string): Promise<string[]> {
  try {
    const text = await readTextFile(fileSystems(), modelJson);
    const { weightsManifest, horovod } = JSON.parse(text) as tf.io.ModelJSON & ModelJsonExtras;
    return [...weightsManifest.flatMap(({ paths }) => paths), horovod?.errorFeedback?.file ?? []].flat();
  } catch {
    return [];
  }
}
