// What every rank program of the bench begins with: its arguments, and the library under test, initialised.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

export function readArguments() {
  const { values } = parseArgs({
    options: {
      variants: { type: 'string', default: '' },
      sizes: { type: 'string', default: '' },
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
  };
}

/** Imports and initialises; rank 0 says on one JSON line whether the native addon serves. */
export async function openLibrary(library) {
  const hvd = await import(pathToFileURL(library).href);
  await hvd.init();
  if (hvd.rank() === 0) console.log(JSON.stringify({ native: hvd.nativeBuilt() }));
  return hvd;
}
