// Whether the files of a dataset are those of the state that it was given: they are known later than the state.

import { shownLocation } from '../files/location.ts';
import { checkStateIndex, type DataState } from './order/state.ts';
import { type FileMark, fingerprintOfFiles } from './plan/fingerprint.ts';

/** Throws ERR_HVD_DATA_STATE, which names the first file that differs. */
export function checkRestored(restored: DataState, files: readonly FileMark[]): void {
  const { digests, perGroup } = fingerprintOfFiles(files);
  checkStateIndex(restored, {
    plan: [],
    index: digests,
    describeIndex: (group) => {
      const names = files
        .slice(group * perGroup, (group + 1) * perGroup)
        .map(({ location }) => shownLocation(location));
      if (names.length === 0)
        return `a file behind ${shownLocation(files.at(-1)?.location ?? 'the last one')}`;
      return names.length === 1 ? (names[0] as string) : `one of the files ${names[0]} … ${names.at(-1)}`;
    },
  });
}
