// The public face of `horovod/keras`: everything in `horovod/tensorflow`, and what tf.layers models add to it.

export * as callbacks from './adapters/keras/callbacks/index.ts';
export * as elastic from './adapters/keras/elastic/index.ts';
export { lastSavedEpoch } from './adapters/keras/last-saved-epoch.ts';
export { type CustomObjects, type LoadModelOptions, loadModel } from './adapters/keras/load-model.ts';
export { type SaveModelOptions, saveModel } from './adapters/keras/save-model.ts';
export { savedDataState } from './adapters/keras/saved-data-state.ts';
export * from './tensorflow.ts';

import { fileHandler, registerFileHandler } from './adapters/keras/model-files/file-handler.ts';

export { fileHandler };

// From here on, model.save('file://…') and tf.loadLayersModel('file://…') work without tfjs-node, too.
registerFileHandler();
