// What a process set remembers of the calls of each collective.

import type { Channel } from '../../engine/channel.ts';
import type { CompiledOperation } from './compiled-operation.ts';
import { Remembered } from './remembered.ts';
import { ways } from './ways.ts';

export class Memory {
  readonly channel: Channel;
  readonly remembered: readonly Remembered[] = Object.values(ways).map(() => new Remembered());
  /** By way: what was called last. */
  readonly last: (CompiledOperation | undefined)[] = Object.values(ways).map(() => undefined);

  constructor(channel: Channel) {
    this.channel = channel;
  }
}
