// Reads a model in the format of TensorFlow.js, model.json beside its weights. Errors say what is wrong with it: missing, not a
// model, truncated, or changed since it was written.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { problemOf } from '../../../files/file-system.ts';
import { isLocal } from '../../../files/location.ts';
import { readTextFile } from '../../../files/read-file.ts';
import { fileSystems } from '../../file-systems.ts';
import { readWithProgress } from './file-progress.ts';
import { besideModelJson, modelJsonIn } from './location.ts';
import { type ModelJsonExtras, reasonOf, sha256 } from './write-model.ts';

/** A model that is replaced while it is read is read again. */
const maxAttempts = 5;

/** The model of a folder with model.json, or of that file itself. */
export async function readModel(location: string): Promise<tf.io.ModelArtifacts> {
  const modelJson = modelJsonIn(location);
  for (let attempt = 1; ; attempt += 1) {
    const text = await readText(modelJson);
    try {
      return await artifactsOf(modelJson, text);
    } catch (error) {
      // See NOTE [Two files, one switch]: a newer model has taken the place of the one whose weights are missing.
      const replaced = (await readText(modelJson)) !== text;
      if (!replaced || attempt === maxAttempts) throw error;
    }
  }
}

async function artifactsOf(modelJson: string, text: string): Promise<tf.io.ModelArtifacts> {
  const description = parse(modelJson, text);
  return tf.io.getModelArtifactsForJSON(description, async (manifest) => {
    const specs = manifest.flatMap(({ weights }) => weights);
    const paths = manifest.flatMap((group) => group.paths);
    const pieces = await Promise.all(paths.map((name) => readWeights(modelJson, name)));
    const weights = new Uint8Array(Buffer.concat(pieces));
    const expected = bytesOf(specs);
    if (expected !== undefined && expected !== weights.length) {
      throw damaged(
        modelJson,
        `${paths.join(', ')} has ${weights.length} bytes where the model has ${expected}: it is ` +
          `${weights.length < expected ? 'truncated' : 'of another model'}`,
      );
    }
    const checksum = description.horovod?.weightsSha256;
    if (checksum !== undefined && checksum !== sha256(weights)) {
      throw damaged(
        modelJson,
        `the content of ${paths.join(', ')} is not what was saved (its checksum differs)`,
      );
    }
    return [specs, weights.buffer];
  });
}

function parse(modelJson: string, text: string): tf.io.ModelJSON & ModelJsonExtras {
  let description: Partial<tf.io.ModelJSON> & ModelJsonExtras;
  try {
    description = JSON.parse(text);
  } catch (cause) {
    throw damaged(modelJson, `it is not JSON (${(cause as Error).message})`, cause);
  }
  const { modelTopology, weightsManifest } = description ?? {};
  if (!modelTopology || !Array.isArray(weightsManifest)) {
    throw damaged(
      modelJson,
      'it has no modelTopology or no weightsManifest, so it is not a TensorFlow.js model',
    );
  }
  return description as tf.io.ModelJSON & ModelJsonExtras;
}

async function readText(modelJson: string): Promise<string> {
  try {
    return await readTextFile(fileSystems(), modelJson);
  } catch (cause) {
    const elsewhere = isLocal(modelJson)
      ? ' Checkpoints are written by rank 0: on another host the file is not there, unless both see the same disk. ' +
        'Load on rank 0 and broadcast.'
      : '';
    throw new HorovodError(
      'ERR_HVD_MODEL_FILE',
      problemOf(cause) === 'missing'
        ? `There is no model at ${modelJson}.${elsewhere}`
        : `${modelJson} cannot be read: ${reasonOf(cause)}`,
      { cause },
    );
  }
}

async function readWeights(modelJson: string, name: string): Promise<Uint8Array<ArrayBuffer>> {
  const file = besideModelJson(modelJson, name);
  try {
    return await readWithProgress(file);
  } catch (cause) {
    throw damaged(modelJson, `its weights ${file} cannot be read (${reasonOf(cause)})`, cause);
  }
}

function damaged(modelJson: string, what: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_MODEL_FILE', `The model ${modelJson} cannot be loaded: ${what}.`, {
    cause,
  });
}

/** How many bytes weights of these specs take; undefined where that depends on their content. */
function bytesOf(specs: readonly tf.io.WeightsManifestEntry[]): number | undefined {
  const bytesPerElement: Record<string, number> = {
    float32: 4,
    int32: 4,
    bool: 1,
    complex64: 8,
    float16: 2,
    uint16: 2,
    uint8: 1,
  };
  const bytes = specs.map(({ dtype, quantization, shape }) => {
    const each = bytesPerElement[quantization?.dtype ?? dtype];
    return each === undefined ? Number.NaN : each * shape.reduce((product, length) => product * length, 1);
  });
  const total = bytes.reduce((sum, count) => sum + count, 0);
  return Number.isNaN(total) ? undefined : total;
}
