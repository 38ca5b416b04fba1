// file:// for model.save() and tf.loadLayersModel() if tfjs-node is not installed, and the schemes of our own file systems: hdfs://
// and those that users register. If tfjs-node is installed, its handler for file:// is used: TensorFlow.js rejects a URL for which
// there are two handlers. For http:// TensorFlow.js has its own.

import * as tf from '@tensorflow/tfjs';
import { isHttp, isLocal, locationOf, schemeOf } from '../../../files/location.ts';
import { fileSystems } from '../../file-systems.ts';
import { modelFolderOf } from './location.ts';
import { readModel } from './read-model.ts';
import { type ModelExtras, writeModel } from './write-model.ts';

type IORouter = Parameters<typeof tf.io.registerSaveRouter>[0];

/** A tf.io handler for a path, a URL as a string or a URL object. */
export function fileHandler(location: string | URL, extras: ModelExtras = {}): tf.io.IOHandler {
  const place = locationOf(location);
  return {
    save: (artifacts) => writeModel(modelFolderOf(place), artifacts, extras),
    load: () => readModel(place),
  };
}

/** Makes file:// and hdfs:// URLs work in TensorFlow.js. Does nothing where they already do. */
export function registerFileHandler(): void {
  const isMissing = (handlers: readonly tf.io.IOHandler[]) => handlers.length === 0;
  if (isMissing(tf.io.getSaveHandlers('file://model'))) {
    tf.io.registerSaveRouter(yieldingRouter((url) => tf.io.getSaveHandlers(url)));
  }
  if (isMissing(tf.io.getLoadHandlers('file://model'))) {
    tf.io.registerLoadRouter(yieldingRouter((url) => tf.io.getLoadHandlers(url)));
  }
  if (isMissing(tf.io.getSaveHandlers('hdfs://host/model'))) {
    tf.io.registerSaveRouter(remoteRouter);
    tf.io.registerLoadRouter(remoteRouter);
  }
}

/** Offers our handler if there is no other, such as that of a tfjs-node imported later. */
function yieldingRouter(handlersOf: (url: string) => tf.io.IOHandler[]): IORouter {
  const state = { asking: false };
  return (url) => {
    if (state.asking || typeof url !== 'string' || !/^file:\/\//.test(url)) return null as never;
    state.asking = true; // when called by ourselves, this router offers nothing
    try {
      return handlersOf(url).length > 0 ? (null as never) : fileHandler(url);
    } finally {
      state.asking = false;
    }
  };
}

function remoteRouter(url: string | string[]): tf.io.IOHandler {
  const isOurs = typeof url === 'string' && !isLocal(url) && !isHttp(url) && fileSystems().has(schemeOf(url));
  return isOurs ? fileHandler(url) : (null as never);
}
