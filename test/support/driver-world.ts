// A world around the driver of an elastic job, without processes: it applies events, remembers orders, and plays workers that do
// what the orders say.

import { drive } from '../../src/rendezvous/driver/driver.ts';
import {
  type DriverEvent,
  type DriverState,
  initialState,
  type Limits,
  type Order,
} from '../../src/rendezvous/driver/driver-state.ts';
import type { Ready } from '../../src/rendezvous/elastic-messages.ts';

export const usualLimits: Limits = {
  np: 2,
  min: 1,
  max: undefined,
  spares: 0,
  elasticTimeoutMs: 600_000,
  readyTimeoutMs: 600_000,
  resetLimit: undefined,
  cooldown: { minMs: 1000, maxMs: 60_000 },
  collectTimeoutMs: 1_800_000,
  stoppedTimeoutMs: 1000,
};

interface PlayedWorker {
  readonly host: string;
  count: number;
  /** The last generation it has formed. */
  generation: number;
  /** The one it was assigned. */
  assigned: number;
  commit: number;
}

export class DriverWorld {
  state: DriverState;
  /** Since the last call of `took`. */
  orders: Order[] = [];
  readonly workers = new Map<number, PlayedWorker>();
  now = 0;

  constructor(limits: Partial<Limits> = {}) {
    this.state = initialState({ ...usualLimits, ...limits });
    this.tell({ kind: 'tick', now: 0 });
  }

  tell(event: DriverEvent): void {
    const { state, orders } = drive(this.state, event);
    this.state = state;
    for (const order of orders) {
      this.orders.push(order);
      if (order.kind === 'start')
        this.workers.set(order.worker, {
          host: order.host,
          count: 0,
          generation: 0,
          assigned: 0,
          commit: -1,
        });
      const answered = order.kind === 'answer' ? this.workers.get(order.worker) : undefined;
      if (order.kind === 'answer' && order.assignment.kind === 'seat' && answered !== undefined)
        answered.assigned = order.assignment.generation;
    }
  }

  /** The orders since the last call, of one kind. */
  took<K extends Order['kind']>(kind: K): Extract<Order, { kind: K }>[] {
    const orders = this.orders;
    this.orders = [];
    return orders.filter((order) => order.kind === kind) as Extract<Order, { kind: K }>[];
  }

  /** Lists hosts ('a:2,b:1') and opens those that are to be opened. */
  hosts(list: string): void {
    const hosts = list === '' ? [] : list.split(',').map((entry) => entry.split(':'));
    this.tell({ kind: 'hosts', hosts: hosts.map(([name = '', slots]) => ({ name, slots: Number(slots) })) });
    this.openHosts();
  }

  openHosts(): void {
    for (const host of this.state.hosts)
      if (host.phase === 'opening') this.tell({ kind: 'host-open', host: host.name });
  }

  ready(worker: number, more: Partial<Ready> = {}): void {
    const played = this.workers.get(worker);
    if (played === undefined) throw new Error(`worker ${worker} was not started`);
    const { host, generation, commit } = played;
    this.tell({
      kind: 'ready',
      worker,
      count: ++played.count,
      ready: { generation, commit, host, pid: 1000 + worker, ...more },
    });
  }

  formed(worker: number): void {
    const played = this.workers.get(worker);
    if (played === undefined) return;
    played.generation = played.assigned;
    played.commit = Math.max(played.commit, 0);
    this.tell({ kind: 'formed', generation: played.assigned, worker });
  }

  ended(worker: number, how = 'was killed by SIGKILL', exitCode = 137, isLost = false): void {
    this.tell({ kind: 'ended', worker, how, exitCode, isLost });
  }

  /** A tick each 100 ms. */
  pass(ms: number): void {
    for (const end = this.now + ms; this.now < end; ) {
      this.now += 100;
      this.tell({ kind: 'tick', now: this.now });
    }
  }

  /** Every member of the generation that is being formed forms it. */
  form(): void {
    for (const worker of this.state.generation?.workers ?? []) this.formed(worker);
  }

  /** All workers that were started become ready, and form their generation. */
  run(list: string): void {
    this.hosts(list);
    for (const worker of [...this.state.workers.keys()]) this.ready(worker);
    this.pass(1000);
    this.form();
    this.orders = [];
  }

  get ranks(): readonly number[] {
    return this.state.generation?.workers ?? [];
  }
}
