// Images as a data set: each file is one record, and the folder it lies in is its label.

import { dataFileError, type ElementFormat } from '../formats/format.ts';
import { type ImageOptions, imageDecoder } from '../formats/images/image-folder.ts';

export async function imageFiles(
  options: ImageOptions & { readonly labels: readonly string[] },
): Promise<ElementFormat> {
  const decoder = await imageDecoder(options);
  return {
    name: 'images',
    index: async () => ({ records: 1, blocks: [0, 1] }),
    async read(file) {
      const content = new Uint8Array(file.size);
      for (let done = 0; done < content.length; ) {
        const read = await file.read(content.subarray(done), done);
        if (read === 0)
          throw dataFileError(file.location, `the file ends at byte ${done} of ${content.length}.`);
        done += read;
      }
      const folder = decodeURIComponent(file.location.split('/').at(-2) ?? '');
      return [await decoder.element(content, options.labels.indexOf(folder), file.location)];
    },
  };
}
