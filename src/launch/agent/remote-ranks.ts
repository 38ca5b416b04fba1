// The ranks of a host that is another machine. The agent there starts, watches and signals them. If the agent is lost, so is
// every rank that has not ended: its streams end, and it counts as lost with its host.

import { Readable } from 'node:stream';
import { ProtocolError } from '../../net/frames.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder } from '../../observe/timeline/record-order.ts';
import type { JobNews } from '../../rendezvous/driver/job-news.ts';
import { deferred } from '../deferred.ts';
import { numberOf, type Slot } from '../hosts/plan-slots.ts';
import type { HostRanks, RankEnding, RankTestament, StartedRank } from '../ranks/host-ranks.ts';
import type { ProcessWatchOptions } from '../ranks/process-watch.ts';
import type { AgentConnection } from './agent-connection.ts';
import type { PrepareOrder, Report, StreamName } from './protocol.ts';

export interface RemoteRanksOptions {
  readonly order: PrepareOrder;
  /** The connection is lost. The ends of its ranks follow. */
  readonly onLost?: ((why: string) => void) | undefined;
  /** Its place is taken away: its ranks end, and it takes no others. */
  readonly onLeaving?: (() => void) | undefined;
  readonly watch?: ProcessWatchOptions | undefined;
  /** Prints a message of the agent. */
  readonly say: (text: string) => void;
  readonly explain: (text: string) => void;
}

export class RemoteRanks implements HostRanks {
  readonly hostname: string;
  readonly #agent: AgentConnection;
  readonly #options: RemoteRanksOptions;
  readonly #ranks = new Map<number, RemoteRank>();
  #view: JobView | undefined;
  #lost: string | undefined;
  #refusal: string | undefined;
  #leaving: string | undefined;

  constructor(agent: AgentConnection, options: RemoteRanksOptions) {
    this.#agent = agent;
    this.#options = options;
    this.hostname = agent.host;
    agent.send({ op: 'prepare', ...options.order });
    agent.listen({
      onReport: (report) => this.#receive(report),
      onLost: (why) => {
        this.#lost = why;
        options.onLost?.(why);
        for (const rank of this.#ranks.values()) rank.lose(why);
      },
    });
  }

  async start(slots: readonly Slot[]): Promise<readonly StartedRank[]> {
    const started = slots.map((slot) => new RemoteRank(slot, this.#agent));
    for (const rank of started) {
      this.#ranks.set(numberOf(rank.slot), rank);
      if (this.#lost !== undefined) rank.lose(this.#lost);
      if (this.#refusal !== undefined) rank.refuse(this.#refusal);
    }
    this.#agent.send({ op: 'start', slots });
    await Promise.all(started.map((rank) => rank.started));
    return started;
  }

  useControlBlock(path: string, workers?: readonly number[]): void {
    this.#agent.send({ op: 'control-block', path, workers });
  }

  notice(): void {
    this.#agent.send({ op: 'notice' });
  }

  tellNews(news: Omit<JobNews, 'pid'>): void {
    this.#agent.send({ op: 'news', news });
  }

  record(order: RecordOrder): void {
    this.#agent.send({ op: 'record', order });
  }

  recordProgress(): undefined {
    return undefined;
  }

  /** As of the last look, which also asks for the next: it takes a moment. */
  look(): JobView | undefined {
    if (this.#lost === undefined) this.#agent.send({ op: 'look' });
    return this.#view;
  }

  resizeTerminal(columns: number): void {
    this.#agent.send({ op: 'terminal', columns });
  }

  close(): Promise<void> {
    return this.#agent.close();
  }

  #receive(report: Report): void {
    switch (report.op) {
      case 'started':
        for (const [number, pid] of report.pids) this.#rank(number).begin(pid ?? undefined);
        return;
      case 'refused':
        this.#refusal = report.why;
        for (const rank of this.#ranks.values()) rank.refuse(report.why);
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
        this.#rank(report.rank).end({
          end: report.end,
          spawnError: report.spawnError,
          lost: this.#leaving,
        });
        return;
      case 'leaving':
        this.#leaving = report.why;
        this.#options.onLeaving?.();
        return;
      case 'cleared':
        this.#rank(report.rank).clear();
        return;
      case 'stopped':
        this.#options.watch?.onStopped(report.rank, report.isStopped);
        return;
      case 'hanging':
        this.#options.watch?.onHanging(report.rank, report.generation);
        return;
      case 'remark':
        if (report.isImportant) this.#options.say(`${this.hostname}: ${report.text}`);
        else this.#options.explain(report.text);
        return;
      case 'view':
        this.#view = toForeignView(report.json);
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
  readonly #started = deferred();
  readonly #ended = deferred<RankEnding>();
  readonly #cleared = deferred();

  constructor(slot: Slot, agent: AgentConnection) {
    this.slot = slot;
    this.#agent = agent;
    const rank = numberOf(slot);
    const credit = (stream: StreamName) => (bytes: number) =>
      agent.send({ op: 'credit', rank, stream, bytes });
    this.stdout = new RemoteStream(credit('stdout'));
    this.stderr = new RemoteStream(credit('stderr'));
  }

  /** It was started, or never will be. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  begin(pid: number | undefined): void {
    this.pid = pid;
    this.#started.resolve();
  }

  get ended(): Promise<RankEnding> {
    return this.#ended.promise;
  }

  get cleared(): Promise<void> {
    return this.#cleared.promise;
  }

  signal(signal: NodeJS.Signals): void {
    this.#agent.send({ op: 'signal', rank: numberOf(this.slot), signal });
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
    this.#started.resolve();
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

/** What is local there is not local here. */
function toForeignView(json: string): JobView | undefined {
  try {
    const view = JSON.parse(json) as JobView;
    return { ...view, ranks: view.ranks.map((rank) => ({ ...rank, isLocal: false })) };
  } catch {
    return undefined;
  }
}
