// What a process set remembers of the calls of each collective.

import type { Channel } from '../../engine/channel.ts';
import type { CompiledOperation } from './compiled-operation.ts';
import { Remembered } from './remembered.ts';
import { ways } from './ways.ts';

/** After a promise form whose ranks compared lists, so many take the common way, which takes a whole tick together … */
const firstPause = 1000;
/** … and twice as many the next time, up to this. */
const longestPause = 2 ** 24;

/** What a process set remembers, by way. */
export class Memory {
  readonly channel: Channel;
  readonly remembered: readonly Remembered[] = Object.values(ways).map(() => new Remembered());
  readonly last: (CompiledOperation | undefined)[] = Object.values(ways).map(() => undefined);
  #pause = firstPause;
  #paused = 0;

  constructor(channel: Channel) {
    this.channel = channel;
  }

  /** Whether a promise form may go by itself. Not where programs start several at a time. */
  mayGoAlone(): boolean {
    if (this.#paused === 0) return true;
    this.#paused--;
    return false;
  }

  pause(): void {
    this.#paused = this.#pause;
    this.#pause = Math.min(2 * this.#pause, longestPause);
  }
}
