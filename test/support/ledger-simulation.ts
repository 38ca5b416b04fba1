// A data service without time and sockets around the ledger: workers, consumers and the connections between them. Connections
// keep the order of messages, deliver them late and sometimes twice, and break. The simulation keeps its own books of what the
// training has taken, and fails if a batch is taken twice, is missing at the end of an epoch, or if nothing goes on.

import assert from 'node:assert/strict';
import { openLedger, reduce } from '../../src/data/service/ledger.ts';
import {
  type BatchId,
  type Cut,
  keyOf,
  type LedgerEvent,
  type LedgerMessage,
  type LedgerOptions,
  type LedgerState,
} from '../../src/data/service/ledger-state.ts';
import { contains } from '../../src/data/service/ranges.ts';
import { LateLinks, randomFrom } from './late-links.ts';
import {
  type Arrival,
  type Consumer,
  epochOf,
  ringKey,
  type Taken,
  type Worker,
} from './simulated-members.ts';

export interface SimulationOptions extends Omit<LedgerOptions, 'lengths'> {
  readonly seed: number;
  readonly workers: number;
  readonly lengths: readonly number[];
  /** False: the ledger learns the lengths from the workers. */
  readonly isCounted: boolean;
}

export class Simulation {
  readonly #options: SimulationOptions;
  readonly #links: LateLinks;
  #ledger: LedgerState;
  #workers: Worker[] = [];
  #consumers: Consumer[] = [];
  #lastWorker = 0;
  #attempts = 0;
  #random: () => number;
  /** What the training has taken since the state that it last went back to, which is `#base`. */
  #log: Taken[] = [];
  #base: Cut;
  /** state(): the step at which all consumers call it. */
  #markAt: number | undefined;
  #cuts: Cut[];

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#random = randomFrom(options.seed);
    this.#links = new LateLinks(this.#random);
    this.#ledger = openLedger(this.#ledgerOptions(options.consumers));
    this.#base = this.#ledger.cut;
    this.#cuts = [this.#base];
    for (let number = 0; number < options.consumers; number++) this.#addConsumer(number);
    for (let count = 0; count < options.workers; count++) this.#addWorker();
  }

  /** So many steps with faults. */
  disturb(steps: number): void {
    for (let step = 0; step < steps; step++) {
      if (this.#random() < 0.9) this.#step();
      else this.#fault();
    }
  }

  /** Without faults until every consumer has ended so many epochs more. */
  finish(epochs: number): void {
    for (const worker of this.#workers) worker.isFrozen = false;
    if (this.#workers.length === 0) this.#addWorker();
    const goal = Math.max(...this.#consumers.map(epochOf)) + epochs;
    const left = () => this.#consumers.some((each) => each.restoring !== undefined || epochOf(each) < goal);
    for (let idle = 0; left(); ) {
      if (this.#step()) idle = 0;
      else if (++idle > 200) assert.fail(`nothing goes on: ${this.#describe()}`);
    }
  }

  #ledgerOptions(consumers: number): LedgerOptions {
    const { lengths, uneven, isRoundRobin, leaseBatches, depth, isCounted } = this.#options;
    const known = lengths.map((length) => (isCounted ? length : null));
    return { consumers, lengths: known, uneven, isRoundRobin, leaseBatches, depth };
  }

  /** One message, one batch made or one batch taken. False: there was nothing to do. */
  #step(): boolean {
    const actions: (() => void)[] = [];
    actions.push(...this.#links.deliveries((name) => !this.#isFrozen(name)));
    for (const worker of this.#workers)
      if (!worker.isFrozen && worker.leases.length > 0) actions.push(() => this.#make(worker));
    for (const consumer of this.#consumers) {
      const found = this.#next(consumer);
      if (found !== undefined) actions.push(() => this.#take(consumer, found));
    }
    const action = actions[Math.floor(this.#random() * actions.length)];
    action?.();
    return action !== undefined;
  }

  #fault(): void {
    const worker = this.#pick(this.#workers);
    const consumer = this.#pick(this.#consumers);
    const faults: readonly (() => void)[] = [
      () => this.#addWorker(),
      () => worker && this.#loseWorker(worker),
      () => {
        if (worker !== undefined) worker.isFrozen = !worker.isFrozen;
      },
      () => consumer && this.#reconnect(consumer),
      () => this.#newIncarnation(),
      () => this.#restoreAll(),
      () => {
        // Consumers that end early are not at the same step.
        if (this.#mayEndEarly) return;
        this.#markAt ??= Math.max(...this.#consumers.map(({ steps }) => steps));
        for (const each of this.#consumers) this.#sendMark(each);
      },
    ];
    this.#pick(faults)?.();
  }

  #isFrozen(name: string): boolean {
    return this.#workers.some(({ isFrozen, number }) => isFrozen && name === `dispatcher worker ${number}`);
  }

  #tell(from: string, event: LedgerEvent): void {
    this.#links.send(`${from} dispatcher`, event, (given: LedgerEvent) => this.#apply(given));
  }

  #apply(event: LedgerEvent): void {
    const [state, messages] = reduce(this.#ledger, event);
    this.#ledger = state;
    for (const message of messages) this.#post(message);
  }

  #post(message: LedgerMessage): void {
    if ('worker' in message) {
      const worker = this.#workers.find(({ number }) => number === message.worker);
      if (worker !== undefined)
        this.#links.send(`dispatcher worker ${worker.number}`, message, (given: LedgerMessage) =>
          this.#toWorker(worker, given),
        );
      return;
    }
    const consumer = this.#consumers[message.consumer];
    if (consumer !== undefined)
      this.#links.send(`dispatcher consumer ${consumer.number}`, message, (given: LedgerMessage) =>
        this.#toConsumer(consumer, given),
      );
  }

  #addWorker(): void {
    const number = ++this.#lastWorker;
    const worker: Worker = { number, isFrozen: false, leases: [], seen: new Set(), made: new Map() };
    this.#workers.push(worker);
    this.#tell(`worker ${number}`, {
      kind: 'room',
      worker: number,
      room: 1 + Math.floor(this.#random() * 6),
    });
  }

  /** What it has sent to consumers may still arrive. */
  #loseWorker(worker: Worker): void {
    this.#workers = this.#workers.filter((each) => each !== worker);
    this.#links.cut(
      (name) =>
        name === `dispatcher worker ${worker.number}` || name === `worker ${worker.number} dispatcher`,
    );
    this.#apply({ kind: 'worker-lost', worker: worker.number });
  }

  #make(worker: Worker): void {
    const lease = worker.leases[0];
    if (lease === undefined) return;
    const { number, epoch, group, next } = lease;
    const from = `worker ${worker.number}`;
    const length = this.#options.lengths[group];
    if (!this.#options.isCounted && length !== undefined && next >= length) {
      worker.leases.shift();
      this.#tell(from, { kind: 'group-ended', worker: worker.number, lease: number, length });
      return;
    }
    lease.next += 1;
    if (lease.next >= lease.to) worker.leases.shift();
    const id = { epoch, group, ordinal: next };
    worker.made.set(`${number} ${keyOf(id)}`, id);
    this.#tell(from, { kind: 'made', worker: worker.number, lease: number, id });
  }

  #toWorker(worker: Worker, message: LedgerMessage): void {
    switch (message.kind) {
      case 'lease': {
        const { lease: number, epoch, group, from, to } = message;
        if (!worker.seen.has(number)) worker.leases.push({ number, epoch, group, next: from, to });
        worker.seen.add(number);
        return;
      }
      case 'revoke':
        worker.leases =
          message.lease === null ? [] : worker.leases.filter(({ number }) => number !== message.lease);
        if (message.lease === null) worker.made.clear();
        return;
      case 'release':
        worker.made.delete(`${message.lease} ${keyOf(message.id)}`);
        return;
      case 'send': {
        if (!worker.made.has(`${message.lease} ${keyOf(message.id)}`)) return;
        const consumer = this.#consumers[message.consumer];
        if (consumer === undefined) return;
        const { id, era, round } = message;
        this.#links.send(
          `worker ${worker.number} consumer ${consumer.number}`,
          { id, era, round },
          (given: never) => this.#receive(consumer, given),
        );
        return;
      }
      default:
        assert.fail(`a worker got ${message.kind}`);
    }
  }

  #addConsumer(number: number): Consumer {
    const { era, cut } = this.#ledger;
    const consumer: Consumer = {
      number,
      era,
      cut,
      attempt: 0,
      epoch: cut.epoch,
      hasEnded: false,
      ring: new Map(),
      early: [],
      taken: new Map(),
      steps: 0,
      marks: 0,
      restoring: undefined,
    };
    this.#consumers[number] = consumer;
    this.#fromConsumer(consumer, { kind: 'consumer', consumer: number, isHere: true });
    return consumer;
  }

  #fromConsumer(consumer: Consumer, event: LedgerEvent): void {
    this.#tell(`consumer ${consumer.number}`, event);
  }

  #receive(consumer: Consumer, batch: Arrival): void {
    const { id, era, round } = batch;
    const key = ringKey(id);
    if (era > consumer.era) consumer.early.push(batch);
    if (era !== consumer.era || consumer.restoring !== undefined) return;
    if (consumer.ring.has(key) || consumer.taken.has(key)) return;
    consumer.ring.set(key, { id, round, isGranted: false });
    this.#fromConsumer(consumer, { kind: 'claim', consumer: consumer.number, era: consumer.era, id });
  }

  #toConsumer(consumer: Consumer, message: LedgerMessage): void {
    if (message.kind === 'restored') {
      const { era, attempt, cut } = message;
      if (consumer.restoring?.attempt !== attempt) return;
      const fresh = { ring: new Map(), taken: new Map(), restoring: undefined, marks: 0, hasEnded: false };
      Object.assign(consumer, { era, cut, attempt, epoch: cut.epoch }, fresh);
      for (const batch of consumer.early.splice(0)) this.#receive(consumer, batch);
      this.#sendMark(consumer);
      return;
    }
    if (message.kind === 'rejected') {
      // Another has heard of the era that this one has asked for.
      if (consumer.restoring !== undefined) this.#fromConsumer(consumer, consumer.restoring);
      return;
    }
    if (consumer.restoring !== undefined) return;
    switch (message.kind) {
      case 'granted':
      case 'denied': {
        const key = ringKey(message.id);
        const held = consumer.ring.get(key);
        if (message.era !== consumer.era || held === undefined || held.isGranted) return;
        if (message.kind === 'denied') consumer.ring.delete(key);
        else {
          held.isGranted = true;
          if (message.id.epoch > consumer.epoch)
            Object.assign(consumer, { epoch: message.id.epoch, hasEnded: false, taken: new Map() });
        }
        return;
      }
      case 'opened':
        for (const { id, isGranted } of consumer.ring.values())
          if (!isGranted)
            this.#fromConsumer(consumer, { kind: 'claim', consumer: consumer.number, era: consumer.era, id });
        this.#sendMark(consumer, true);
        return;
      case 'epoch-ended':
        if (message.era === consumer.era) this.#endEpoch(consumer, message.epoch);
        return;
      case 'cut':
        if (message.era === consumer.era && message.number === consumer.marks) this.#checkCut(message.cut);
        return;
      default:
        assert.fail(`a consumer got ${message.kind}`);
    }
  }

  /** With 'keep' a consumer may have one batch more than others, and goes on alone. */
  get #mayEndEarly(): boolean {
    return this.#options.uneven === 'keep';
  }

  /** The batch that its training loop would take now. All take part in each step, so nobody is more than one ahead. */
  #next(consumer: Consumer): BatchId | undefined {
    if (consumer.restoring !== undefined) return undefined;
    const isAhead = this.#consumers.some(
      (other) =>
        other.restoring !== undefined ||
        epochOf(other) < consumer.epoch ||
        (epochOf(other) === consumer.epoch && other.taken.size < consumer.taken.size && !this.#mayEndEarly),
    );
    if (isAhead || (this.#markAt === consumer.steps && consumer.marks === 0)) return undefined;
    for (const { id, round, isGranted } of consumer.ring.values()) {
      const isDue = round === null || round === consumer.taken.size;
      if (isGranted && isDue && id.epoch === consumer.epoch) return id;
    }
    return undefined;
  }

  #take(consumer: Consumer, id: BatchId): void {
    const key = ringKey(id);
    consumer.ring.delete(key);
    consumer.taken.set(key, id);
    this.#log.push({ consumer: consumer.number, step: consumer.steps, id });
    const isRepeat = id.group === this.#options.lengths.length;
    if (!isRepeat) {
      const times = this.#log.filter((each) => ringKey(each.id) === key).length;
      assert.equal(times, 1, `${key} is taken twice`);
      const isDone = id.epoch === this.#base.epoch && contains(this.#base.done[id.group] ?? [], id.ordinal);
      assert.ok(!isDone, `${key} was taken before the restore()`);
    }
    consumer.steps += 1;
    this.#fromConsumer(consumer, { kind: 'taken', consumer: consumer.number, era: consumer.era, ids: [id] });
    this.#sendMark(consumer);
  }

  #endEpoch(consumer: Consumer, epoch: number): void {
    if (epoch < epochOf(consumer)) return;
    for (const { id, isGranted } of consumer.ring.values())
      assert.ok(!isGranted || id.epoch > epoch, `${ringKey(id)} was granted and not taken`);
    // An epoch of which it got nothing.
    if (epoch > consumer.epoch) consumer.taken = new Map();
    Object.assign(consumer, { epoch, hasEnded: true });
    if (this.#consumers.every((other) => other.restoring === undefined && epochOf(other) > epoch))
      this.#checkEpoch(epoch);
  }

  #checkEpoch(epoch: number): void {
    const { lengths, uneven, isCounted } = this.#options;
    const entries = this.#log.filter(({ id }) => id.epoch === epoch);
    const counts = this.#consumers.map(
      ({ number }) => entries.filter((each) => each.consumer === number).length,
    );
    const spread = Math.max(...counts) - Math.min(...counts);
    if (uneven !== 'keep') assert.equal(spread, 0, `the consumers took ${counts} batches of epoch ${epoch}`);
    else if (isCounted) assert.ok(spread <= 1, `the consumers took ${counts} batches of epoch ${epoch}`);
    const before = epoch === this.#base.epoch ? this.#base.done : [];
    const isDone = (group: number, ordinal: number) => contains(before[group] ?? [], ordinal);
    const due = lengths.flatMap((length, group) =>
      Array.from({ length }, (_, ordinal) => ({ group, ordinal })).filter(
        (id) => !isDone(id.group, id.ordinal),
      ),
    );
    const taken = new Set(entries.map(({ id }) => keyOf(id)));
    const missing = due.filter((id) => !taken.has(keyOf(id))).length;
    if (uneven === 'drop')
      assert.ok(missing < this.#consumers.length, `${missing} batches of epoch ${epoch} are missing`);
    else assert.equal(missing, 0, `${missing} batches of epoch ${epoch} are missing`);
  }

  // state() and restore()

  #sendMark(consumer: Consumer, isAgain = false): void {
    if (this.#markAt !== consumer.steps || consumer.restoring !== undefined) return;
    if (consumer.marks > 0 && !isAgain) return;
    consumer.marks = 1;
    this.#fromConsumer(consumer, { kind: 'mark', consumer: consumer.number, era: consumer.era, number: 1 });
  }

  #checkCut(cut: Cut): void {
    const step = this.#markAt;
    if (step === undefined) return;
    const before = this.#log.filter(
      (each) => each.step < step && each.id.group < this.#options.lengths.length,
    );
    for (const [group, done] of cut.done.entries()) {
      for (let ordinal = 0; ordinal < (this.#options.lengths[group] ?? 0); ordinal++) {
        const isTaken =
          before.some(({ id }) => id.epoch === cut.epoch && id.group === group && id.ordinal === ordinal) ||
          (cut.epoch === this.#base.epoch && contains(this.#base.done[group] ?? [], ordinal));
        assert.equal(contains(done, ordinal), isTaken, `${group}/${ordinal} in the cut at step ${step}`);
      }
    }
    this.#cuts.push(cut);
  }

  #restoreAll(): void {
    const cut = this.#pick(this.#cuts) ?? this.#base;
    const consumers = 1 + Math.floor(this.#random() * 4);
    this.#attempts += 1;
    this.#base = cut;
    this.#log = [];
    this.#markAt = undefined;
    // Those that are left out are gone for the training.
    for (const { number } of this.#consumers.splice(consumers)) {
      this.#links.cut((name) => name.includes(`consumer ${number}`));
      this.#apply({ kind: 'consumer', consumer: number, isHere: false });
    }
    for (let number = 0; number < consumers; number++) {
      const consumer = this.#consumers[number] ?? this.#addConsumer(number);
      consumer.ring = new Map();
      consumer.steps = 0;
      consumer.restoring = { kind: 'restore', consumer: number, attempt: this.#attempts, consumers, cut };
      this.#fromConsumer(consumer, consumer.restoring);
    }
  }

  // Broken connections

  #reconnect(consumer: Consumer): void {
    const { number } = consumer;
    this.#links.cut(
      (name) => name === `consumer ${number} dispatcher` || name === `dispatcher consumer ${number}`,
    );
    this.#apply({ kind: 'consumer', consumer: number, isHere: false });
    this.#fromConsumer(consumer, { kind: 'consumer', consumer: number, isHere: true });
    this.#resend(consumer);
  }

  #resend(consumer: Consumer): void {
    const { number, era, attempt, cut, epoch, taken, ring, restoring } = consumer;
    if (restoring !== undefined) {
      this.#fromConsumer(consumer, restoring);
      return;
    }
    const held = [...ring.values()].flatMap(({ id, isGranted }) =>
      isGranted && id.epoch === epoch ? [id] : [],
    );
    const done = [...taken.values()];
    const report = { era, attempt, cut, epoch, granted: [...done, ...held], taken: done };
    this.#fromConsumer(consumer, { kind: 'report', consumer: number, ...report });
    this.#fromConsumer(consumer, { kind: 'taken', consumer: number, era, ids: done });
    for (const { id, isGranted } of consumer.ring.values())
      if (!isGranted) this.#fromConsumer(consumer, { kind: 'claim', consumer: number, era, id });
    this.#sendMark(consumer, true);
  }

  /** The dispatcher is lost: all of its connections end, and the next one asks the consumers. */
  #newIncarnation(): void {
    this.#links.cut((name) => name.startsWith('dispatcher') || name.endsWith('dispatcher'));
    const { incarnation, options } = this.#ledger;
    this.#ledger = openLedger(this.#ledgerOptions(options.consumers), null, incarnation + 1);
    const workers = this.#workers.splice(0);
    for (const _ of workers) this.#addWorker();
    for (const consumer of this.#consumers) {
      this.#fromConsumer(consumer, { kind: 'consumer', consumer: consumer.number, isHere: true });
      this.#resend(consumer);
    }
  }

  #pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.#random() * list.length)];
  }

  #describe(): string {
    const { groups, ready, leases, workers, counts, quota, awaited, ended, era, epoch } = this.#ledger;
    const books = {
      era,
      epoch,
      groups,
      ready: [...ready],
      leases: [...leases],
      workers: [...workers],
      counts,
      quota,
    };
    const rest = { awaited: [...awaited], ended: [...ended], restore: this.#ledger.restore };
    const consumers = this.#consumers.map((each) => ({
      ...each,
      ring: [...each.ring],
      taken: [...each.taken.keys()],
    }));
    return JSON.stringify({ books, rest, consumers });
  }
}
