// The ranks of a host that is another machine. The agent there starts, watches and signals them. If the agent is lost, so is
// every rank that has not ended: its streams end, and it counts as lost with its host.

import { Readable } from 'node:stream';
import { ProtocolError } from '../../net/frames.ts';
import type { Report, StartOrder, StreamName } from '../agent/protocol.ts';
import { deferred } from '../deferred.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { HostRanks, RankEnding, RankTestament, StartedRank } from '../ranks/host-ranks.ts';
import type { AgentConnection } from './agent-connection.ts';

export interface RemoteRanksOptions {
  readonly slots: readonly Slot[];
  readonly order: StartOrder;
  /** Prints a message of the agent. */
  readonly say: (text: string) => void;
  readonly explain: (text: string) => void;
}

export class RemoteRanks implements HostRanks {
  readonly hostname: string;
  readonly slots: readonly Slot[];
  readonly #agent: AgentConnection;
  readonly #options: RemoteRanksOptions;
  readonly #ranks: ReadonlyMap<number, RemoteRank>;
  readonly #started = deferred();

  constructor(agent: AgentConnection, options: RemoteRanksOptions) {
    this.#agent = agent;
    this.#options = options;
    this.hostname = agent.host;
    this.slots = options.slots;
    this.#ranks = new Map(options.slots.map((slot) => [slot.rank, new RemoteRank(slot, agent)]));
  }

  async start(): Promise<readonly StartedRank[]> {
    this.#agent.listen({
      onReport: (report) => this.#receive(report),
      onLost: (why) => {
        for (const rank of this.#ranks.values()) rank.lose(why);
        this.#started.resolve();
      },
    });
    this.#agent.send({ op: 'start', ...this.#options.order });
    await this.#started.promise;
    return [...this.#ranks.values()];
  }

  useControlBlock(path: string): void {
    this.#agent.send({ op: 'control-block', path });
  }

  close(): Promise<void> {
    return this.#agent.close();
  }

  #receive(report: Report): void {
    switch (report.op) {
      case 'started':
        for (const [index, { rank }] of this.slots.entries())
          this.#rank(rank).pid = report.pids[index] ?? undefined;
        this.#started.resolve();
        return;
      case 'refused':
        for (const rank of this.#ranks.values()) rank.refuse(report.why);
        this.#started.resolve();
        return;
      case 'output':
        this.#rank(report.rank).output(report.stream, report.bytes);
        return;
      case 'output-end':
        this.#rank(report.rank).output(report.stream, null);
        return;
      case 'testament':
        this.#rank(report.rank).testament = report.testament;
        return;
      case 'ended':
        this.#rank(report.rank).end({ end: report.end, spawnError: report.spawnError });
        return;
      case 'cleared':
        this.#rank(report.rank).clear();
        return;
      case 'remark':
        if (report.isImportant) this.#options.say(`${this.hostname}: ${report.text}`);
        else this.#options.explain(report.text);
        return;
      case 'hello':
      case 'heartbeat':
        return;
      default:
        report satisfies never;
    }
  }

  #rank(number: number): RemoteRank {
    const rank = this.#ranks.get(number);
    if (rank === undefined) throw new ProtocolError(`a report of rank ${number}`);
    return rank;
  }
}

class RemoteRank implements StartedRank {
  readonly slot: Slot;
  readonly stdout: RemoteStream;
  readonly stderr: RemoteStream;
  readonly endsItsStreams = true;
  pid: number | undefined;
  testament: RankTestament | undefined;
  readonly #agent: AgentConnection;
  readonly #ended = deferred<RankEnding>();
  readonly #cleared = deferred();

  constructor(slot: Slot, agent: AgentConnection) {
    this.slot = slot;
    this.#agent = agent;
    const { rank } = slot;
    const credit = (stream: StreamName) => (bytes: number) =>
      agent.send({ op: 'credit', rank, stream, bytes });
    this.stdout = new RemoteStream(credit('stdout'));
    this.stderr = new RemoteStream(credit('stderr'));
  }

  get ended(): Promise<RankEnding> {
    return this.#ended.promise;
  }

  get cleared(): Promise<void> {
    return this.#cleared.promise;
  }

  signal(signal: NodeJS.Signals): void {
    this.#agent.send({ op: 'signal', rank: this.slot.rank, signal });
  }

  output(stream: StreamName, bytes: Buffer | null): void {
    this[stream].arrive(bytes);
  }

  end(ending: RankEnding): void {
    this.#ended.resolve(ending);
  }

  clear(): void {
    this.#cleared.resolve();
  }

  /** Has no effect on ranks that have already ended. */
  lose(why: string): void {
    this.#finish({ end: { code: 1 }, lost: why });
  }

  refuse(why: string): void {
    this.#finish({ end: { code: 126 }, spawnError: why });
  }

  #finish(ending: RankEnding): void {
    this.end(ending);
    this.clear();
    this.output('stdout', null);
    this.output('stderr', null);
  }
}

/** Tells the other side how much has been read, so that it sends more. */
class RemoteStream extends Readable {
  readonly #credit: (bytes: number) => void;
  #unused = 0;
  #isOver = false;

  constructor(credit: (bytes: number) => void) {
    super({ highWaterMark: 64 * 1024 });
    this.#credit = credit;
  }

  arrive(bytes: Buffer | null): void {
    if (this.#isOver) return;
    this.#isOver = bytes === null;
    // A frame shares its memory with others of the same piece.
    if (bytes !== null) this.#unused += bytes.length;
    this.push(bytes);
  }

  override _read(): void {
    if (this.#unused === 0) return;
    this.#credit(this.#unused);
    this.#unused = 0;
  }
}
