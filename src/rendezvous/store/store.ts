// Store: how ranks tell each other where they are before any transport exists. Keys are written once.

import type { WaitOptions } from '../../net/wait.ts';

export interface StoreWait extends WaitOptions {
  /** The rank that is to write the key: the wait fails at once when that rank is lost or has left. */
  readonly from?: number | undefined;
}

export interface Store {
  /** Writes a key. A key can be written once; a second write of another value is rejected. */
  set(key: string, value: string, options?: WaitOptions): Promise<void>;
  /** The key's value; waits until somebody has written it. */
  get(key: string, options?: StoreWait): Promise<string>;
  close(): void;
}
