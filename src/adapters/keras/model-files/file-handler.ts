// file:// for model.save() and tf.loadLayersModel() if tfjs-node is not installed. If it is, its handler is used: TensorFlow.js
// rejects a URL for which there are two handlers.

import * as tf from '@tensorflow/tfjs';
import { folderOf, isFileUrl, pathOf } from './location.ts';
import { readModel } from './read-model.ts';
import { type ModelExtras, writeModel } from './write-model.ts';

type IORouter = Parameters<typeof tf.io.registerSaveRouter>[0];

/** A tf.io handler for a path, a file:// URL or a URL object. */
export function fileHandler(location: string | URL, extras: ModelExtras = {}): tf.io.IOHandler {
  const path = pathOf(location);
  return {
    save: (artifacts) => writeModel(folderOf(path), artifacts, extras),
    load: () => readModel(path),
  };
}

/** Makes file:// URLs work in TensorFlow.js. Does nothing where they already do. */
export function registerFileHandler(): void {
  const probe = 'file://model';
  if (tf.io.getSaveHandlers(probe).length === 0) {
    tf.io.registerSaveRouter(yieldingRouter((url) => tf.io.getSaveHandlers(url)));
  }
  if (tf.io.getLoadHandlers(probe).length === 0) {
    tf.io.registerLoadRouter(yieldingRouter((url) => tf.io.getLoadHandlers(url)));
  }
}

/** Offers our handler if there is no other, such as that of a tfjs-node imported later. */
function yieldingRouter(handlersOf: (url: string) => tf.io.IOHandler[]): IORouter {
  const state = { asking: false };
  return (url) => {
    if (state.asking || typeof url !== 'string' || !isFileUrl(url)) return null as never;
    state.asking = true; // when called by ourselves, this router offers nothing
    try {
      return handlersOf(url).length > 0 ? (null as never) : fileHandler(url);
    } finally {
      state.asking = false;
    }
  };
}
