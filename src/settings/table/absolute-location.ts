// Paths in flags and files are relative to where horovodrun was started. Ranks may run elsewhere, so they get absolute ones.

import { resolve } from 'node:path';

/** DYNAMIC (of the timeline) and URLs are not paths. */
export const absoluteLocation = (text: string): string =>
  text === '' || text === 'DYNAMIC' || /^[a-z][a-z0-9+.-]+:\/\//i.test(text) ? text : resolve(text);
