// Fault points of a reset: where a worker of an elastic job is while its generation is being formed. Everything that a worker
// tells the driver and the others then goes through the store, so a point is the moment before or after an entry of the store. The library
// itself knows nothing of points: watchFaultPoints() wraps the connection to the store, in tests only.

import { type Channel, channel } from 'node:diagnostics_channel';
import { TcpStore } from '../../src/rendezvous/store/tcp-store.ts';

/** What a worker does in the store, in the order of a reset. `connect` happens between hosts only. */
type Stage = 'report' | 'assign' | 'gather' | 'open' | 'connect' | 'barrier' | 'formed';

const keys: Readonly<Record<Stage, RegExp>> = {
  report: /^elastic\/ready\//,
  assign: /^elastic\/assignment\//,
  gather: /^g\/\d+\/introduction\//,
  open: /^g\/\d+\/control-block\//,
  connect: /^g\/\d+\/addresses\//,
  barrier: /^g\/\d+\/group\//,
  formed: /^elastic\/formed\//,
};

/** 'gather:before', 'gather:after' … */
export type StorePoint = `${Stage}:${'before' | 'after'}`;

/** What is published on the channel when a worker reaches a point. */
export interface ReachedPoint {
  readonly point: StorePoint;
  /** A subscriber may set it: the worker does not go on until it settles. */
  hold?: Promise<unknown>;
}

export const pointChannel: Channel = channel('horovod.testing.point');

/** From now on the points that this process reaches are published. Returns a function that ends it. */
export function watchFaultPoints(): () => void {
  const { get, set } = TcpStore.prototype;
  TcpStore.prototype.get = async function (key, options) {
    return around(key, () => get.call(this, key, options));
  };
  TcpStore.prototype.set = async function (key, value, options) {
    return around(key, () => set.call(this, key, value, options));
  };
  return () => {
    TcpStore.prototype.get = get;
    TcpStore.prototype.set = set;
  };
}

async function around<T>(key: string, use: () => Promise<T>): Promise<T> {
  const stage = (Object.keys(keys) as Stage[]).find((each) => keys[each].test(key));
  if (stage === undefined) return use();
  await reach(`${stage}:before`);
  const result = await use();
  await reach(`${stage}:after`);
  return result;
}

async function reach(point: StorePoint): Promise<void> {
  const reached: ReachedPoint = { point };
  pointChannel.publish(reached);
  await reached.hold;
}
