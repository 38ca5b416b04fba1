// Random walks of the driver: workers that come, report, form, die, stop and blame in any order, and hosts that come and go. Whatever
// happens, the invariants of a job hold, and a job whose workers behave again runs or has ended.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DriverWorld } from '../../../test/support/driver-world.ts';
import type { Limits, Order } from './driver-state.ts';

const walks = 140;
const eventsPerWalk = 250;

for (const [name, limits] of [
  ['one to four ranks', { np: 2, min: 1, max: 4 }],
  ['at least two ranks, one spare', { np: 3, min: 2, max: 3, spares: 1 }],
  [
    'all slots, few resets, no second chance',
    { np: 1, min: 1, resetLimit: 6, cooldown: { minMs: 0, maxMs: 0 } },
  ],
] as const) {
  test(`random walks keep the invariants: ${name}`, () => {
    for (let seed = 1; seed <= walks; seed++)
      walk(seed, { ...limits, elasticTimeoutMs: 20_000, readyTimeoutMs: 20_000, collectTimeoutMs: 30_000 });
  });
}

function walk(seed: number, limits: Partial<Limits>): void {
  const random = randomFrom(seed * 7919);
  const world = new DriverWorld(limits);
  const inspector = new Inspector(world);
  const history: string[] = [];
  const does = (what: string, action: () => void) => {
    history.push(what);
    try {
      action();
      inspector.check();
    } catch (error) {
      throw new Error(`seed ${seed}: ${(error as Error).message}\n${history.slice(-40).join('\n')}`, {
        cause: error,
      });
    }
  };
  does('hosts a:2', () => world.hosts('a:2'));
  for (let event = 0; event < eventsPerWalk && world.state.phase !== 'over'; event++) {
    const alive = [...world.state.workers.keys()];
    const worker = alive[Math.floor(random() * alive.length)];
    const dice = random();
    if (dice < 0.2) {
      const ms = random() < 0.1 ? 6000 : 300;
      does(`${ms} ms`, () => world.pass(ms));
    } else if (dice < 0.24) {
      const list = ['a:2', 'a:2,b:2', 'b:1', 'a:1,b:1', 'a:2,b:2,c:1', ''][
        Math.floor(random() * 6)
      ] as string;
      does(`hosts ${list}`, () => world.hosts(list));
    } else if (dice < 0.26) {
      const host = world.state.hosts[Math.floor(random() * world.state.hosts.length)]?.name ?? 'a';
      does(`${host} fails`, () => loseHost(world, host));
    } else if (worker !== undefined && dice < 0.3) does(`${worker} dies`, () => world.ended(worker));
    else if (worker !== undefined && dice < 0.32) {
      const isStopped = random() < 0.5;
      does(`${worker} stopped ${isStopped}`, () => world.tell({ kind: 'stopped', worker, isStopped }));
    } else if (worker !== undefined && dice < 0.36 && canReport(world, worker)) {
      const cause = { code: 'ERR_HVD_PEER_LOST', message: 'x', worker: Math.floor(random() * 8) } as const;
      does(`${worker} blames ${cause.worker}`, () => world.ready(worker, { cause }));
    } else if (worker !== undefined && dice < 0.37 && canReport(world, worker) && isRunning(world, worker)) {
      does(`${worker} is done`, () => world.ready(worker, { isDone: true }));
    } else does(`${worker} cooperates`, () => void (worker === undefined || cooperate(world, worker)));
  }
  // Whoever is left behaves: each wait ends.
  does('all behave', () => behave(world));
  assert.ok(
    ['running', 'over'].includes(world.state.phase),
    `seed ${seed} ended in ${world.state.phase}\n${history.slice(-40).join('\n')}`,
  );
}

function behave(world: DriverWorld): void {
  world.hosts('a:2,b:2');
  for (let round = 0; round < 700 && world.state.phase !== 'over'; round++) {
    for (const worker of [...world.state.workers.keys()]) {
      cooperate(world, worker);
      const isCalled = world.state.generation?.isNoticed || world.state.phase === 'collecting';
      if (isCalled && canReport(world, worker) && isRunning(world, worker)) world.ready(worker);
      const { phase } = world.state;
      const isOver = phase === 'finishing' || phase === 'failing';
      const signalled = world.state.workers.get(worker)?.signalled;
      if (isOver || signalled !== undefined) world.ended(worker);
    }
    world.openHosts();
    world.pass(100);
  }
}

/** Does what a good worker would do next. */
function cooperate(world: DriverWorld, worker: number): void {
  const played = world.workers.get(worker);
  const known = world.state.workers.get(worker);
  if (played === undefined || known === undefined || known.report !== undefined) return;
  if (known.signalled === 'SIGKILL') world.ended(worker);
  else if (known.leavingSince !== undefined) world.ended(worker, 'exited with code 0', 0);
  else if (played.assigned === 0) world.ready(worker);
  else if (played.assigned > played.generation && !isClosed(world, played.assigned)) world.formed(worker);
  else if (isClosed(world, played.assigned)) world.ready(worker);
}

function isClosed({ state }: DriverWorld, generation: number): boolean {
  return state.generation?.number !== generation || state.generation.isClosed;
}

function canReport(world: DriverWorld, worker: number): boolean {
  const known = world.state.workers.get(worker);
  return known !== undefined && known.report === undefined && known.leavingSince === undefined;
}

function isRunning(world: DriverWorld, worker: number): boolean {
  const played = world.workers.get(worker);
  return played !== undefined && played.assigned > 0 && played.assigned === played.generation;
}

function loseHost(world: DriverWorld, host: string): void {
  world.tell({ kind: 'host-failed', host });
  for (const { number, host: place } of [...world.state.workers.values()])
    if (place === host) world.ended(number, `was lost with ${host}`, 1, true);
}

class Inspector {
  readonly #world: DriverWorld;
  readonly #answered = new Set<string>();
  #lastWorker = -1;
  #lastGeneration = 0;
  #formed: readonly number[] = [];

  constructor(world: DriverWorld) {
    this.#world = world;
  }

  check(): void {
    const { orders, state } = this.#world;
    for (const order of orders) this.#look(order);
    this.#world.orders = [];
    if (state.phase === 'running') this.#formed = state.generation?.workers ?? [];
    for (const { number, host } of state.workers.values())
      assert.equal(host, this.#world.workers.get(number)?.host, 'a worker has one place');
  }

  #look(order: Order): void {
    const { limits } = this.#world.state;
    if (order.kind === 'start') {
      assert.ok(order.worker > this.#lastWorker, 'numbers of workers never repeat');
      assert.ok(order.rank < order.size);
      assert.ok(this.#formed.length === 0 || order.rank > 0, 'no newcomer expects to be rank 0');
      this.#lastWorker = order.worker;
    }
    if (order.kind === 'answer') {
      const key = `${order.worker} ${order.count}`;
      assert.ok(!this.#answered.has(key), 'a report has one answer');
      assert.ok(
        order.count <= (this.#world.workers.get(order.worker)?.count ?? 0),
        'no seat without a report',
      );
      this.#answered.add(key);
    }
    if (order.kind === 'form') {
      const { generation, workers } = order;
      assert.ok(generation > this.#lastGeneration, 'numbers of generations never repeat');
      this.#lastGeneration = generation;
      assert.equal(new Set(workers).size, workers.length, 'a worker has one seat');
      assert.ok(workers.length <= (limits.max ?? 5), 'at most --max-np');
      if (this.#formed.length === 0) assert.ok(workers.length >= limits.np, 'at least -np to begin');
      else assert.ok(workers.length >= 1);
    }
    if (order.kind === 'reset') assert.ok(order.size - order.joined.length > 0, 'somebody has the state');
  }
}

function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
