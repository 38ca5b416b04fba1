// What every rank program of the bench begins with: its arguments, and the library under test, initialised.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

export function readArguments() {
  const { values } = parseArgs({
    options: {
      variants: { type: 'string', default: '' },
      sizes: { type: 'string', default: '' },
      unwatched: { type: 'boolean', default: false },
      library: { type: 'string', default: path.join(import.meta.dirname, '../../dist/index.js') },
    },
  });
  return {
    variants: values.variants.split(',').filter((name) => name !== ''),
    sizes: values.sizes
      .split(',')
      .filter((text) => text !== '')
      .map(Number),
    library: values.library,
    unwatched: values.unwatched,
  };
}

/** From here on flight recorder, status, stall and straggler reports and timeline hear of nothing. */
export async function unwatch(library) {
  const context = path.join(path.dirname(library), 'context/default/default-context.js');
  (await import(pathToFileURL(context).href)).defaultContext().unwatch();
}

/** Imports and initialises; rank 0 says on one JSON line whether the native addon serves. */
export async function openLibrary(library) {
  const hvd = await import(pathToFileURL(library).href);
  await hvd.init();
  if (hvd.rank() === 0) console.log(JSON.stringify({ native: hvd.nativeBuilt() }));
  return hvd;
}
