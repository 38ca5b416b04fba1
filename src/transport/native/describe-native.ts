// Whether there is an addon, for processes that do not use it themselves. Apart from load.ts, because ranks need no child processes.

import path from 'node:path';
import { interfaceVersion } from './addon.ts';
import { doesNotLoad, findNative, loadAddon, type NativeSearch, otherSources } from './load.ts';
import { tryAddon } from './try-addon.ts';

/** For `horovodrun --check-build` and for processes that start others: the addons of mpi and gloo are not loaded here. */
export function describeNative(search: NativeSearch = {}): {
  built: boolean;
  reason?: string;
  path?: string;
} {
  const found = findNative(search);
  if ('reason' in found) return { built: false, reason: found.reason };
  const { file, isMain } = found;
  if (isMain) {
    const result = loadAddon(file);
    return result.built ? { built: true, path: file } : { built: false, reason: result.reason };
  }
  const answer = tryAddon(path.resolve(file));
  if ('error' in answer) return { built: false, reason: doesNotLoad(file, answer.error) };
  return answer.version === interfaceVersion
    ? { built: true, path: file }
    : { built: false, reason: otherSources(file) };
}
