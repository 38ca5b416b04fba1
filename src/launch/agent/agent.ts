// The agent. States: waiting for what the ranks have in common → running the ranks of its host → ending. It ends, and stops all its
// ranks, when its input ends (because horovodrun or ssh has ended), when horovodrun is silent for too long, or on a signal.
// If the agent itself is killed, its guardian kills the ranks. Its orders come over ssh's pipes (runAgent), or over a socket
// (dialed-agent.ts).

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { loopbackId, machineId } from '../../net/machine.ts';
import { SilenceDetector } from '../../net/silence.ts';
import { driverSettings } from '../../settings/command-line.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { planGpus } from '../../settings/gpus.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { packageVersion } from '../../settings/package.ts';
import { settingsTable } from '../../settings/table.ts';
import { resolveCommand } from '../command.ts';
import { deferred } from '../deferred.ts';
import { FlightRecords } from '../failure-report/flight-records.ts';
import { numberOf, type Slot } from '../hosts/plan-slots.ts';
import type { StartedRank } from '../ranks/host-ranks.ts';
import { LocalRanks } from '../ranks/local-ranks.ts';
import type { ProcessWatchOptions } from '../ranks/process-watch.ts';
import { crowdedHint } from '../spawn/allowed-cores.ts';
import { Guardian } from '../spawn/guardian.ts';
import { CorePinning } from '../spawn/pin-cores.ts';
import { receivedEnvironment } from './forwarded-environment.ts';
import { OutputPump } from './output-pump.ts';
import {
  encodeMessage,
  heartbeatMs,
  linePrefix,
  MessageReader,
  type Order,
  type PrepareOrder,
  protocolVersion,
  type Report,
  type SentProgram,
  type StreamName,
} from './protocol.ts';

/** What an agent knows before its first order. */
export interface AgentFacts {
  /** Proven in the handshake; over ssh it comes with `prepare`. */
  readonly secret?: JobSecret | undefined;
  /** The launcher's address as this host sees it. */
  readonly launcherAddress: string | undefined;
  /** Of an agent that shares the machine with other agents of the job. */
  readonly place?: Place | undefined;
}

interface Place {
  /** Unique on this machine. */
  readonly name: string;
  /** Its GPUs, for its rank; undefined: all of the host. */
  readonly gpus: string | undefined;
}

/** Until `prepare` says how long horovodrun may be silent. */
const firstSilenceMs = 10_000;
/** Between SIGTERM and SIGKILL when horovodrun has gone. */
const orphanGraceMs = 1000;

/** Serves one job; resolves with the exit code when nothing is left to do. */
export async function runAgent(process: NodeJS.Process): Promise<number> {
  process.stdout.write(`${linePrefix}frames\n`);
  const reader = new MessageReader<Order>();
  const agent = new Agent((report) => void process.stdout.write(encodeMessage(report)), {
    launcherAddress: processEnvironment()['SSH_CONNECTION']?.split(' ')[0],
  });
  process.stdout.on('error', () => agent.end());
  process.stdin.on('error', () => agent.end());
  process.stdin.on('end', () => agent.end());
  process.stdin.on('data', (piece: Buffer) => agent.receive(() => reader.push(piece)));
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT'] as const) process.on(signal, () => agent.end());
  return agent.finished;
}

export class Agent {
  readonly #report: (report: Report) => void;
  readonly #facts: AgentFacts;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #pumps = new Map<string, OutputPump>();
  readonly #endedRanks = new Set<StartedRank>();
  #silence: SilenceDetector<'launcher'>;
  readonly #ranks = new Map<number, StartedRank>();
  #host: LocalRanks | undefined;
  #guardian: Guardian | undefined;
  /** With a program that was sent. */
  #folder: string | undefined;
  #isEnding = false;
  readonly #finished = deferred<number>();

  constructor(report: (report: Report) => void, facts: AgentFacts) {
    this.#report = report;
    this.#facts = facts;
    this.#silence = this.#detectSilence(firstSilenceMs);
    this.#heartbeat = setInterval(() => this.#report({ op: 'heartbeat' }), heartbeatMs);
    this.#report({
      op: 'hello',
      protocol: protocolVersion,
      version: packageVersion(),
      node: process.versions.node,
      pid: process.pid,
      hostname: hostname(),
      loopback: loopbackId(),
      machine: machineId(),
      launcherAddress: facts.launcherAddress,
      directory: process.cwd(),
    });
  }

  get finished(): Promise<number> {
    return this.#finished.promise;
  }

  /** Something has come. `read` gives the orders in it, and throws if it is not a message of horovodrun. */
  receive(read: () => readonly Order[]): void {
    this.#silence.heard('launcher');
    let orders: readonly Order[];
    try {
      orders = read();
    } catch {
      this.end(1);
      return;
    }
    for (const order of orders) this.#obey(order);
  }

  /** Ends all ranks, and then the agent. */
  end(exitCode = 0): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    void this.#endAll(exitCode);
  }

  /** Ends all ranks, which are lost with this place. `why` completes 'host2: …'. */
  leave(why: string): void {
    if (!this.#isEnding) this.#report({ op: 'leaving', why });
    this.end(1);
  }

  #obey(order: Order): void {
    switch (order.op) {
      case 'prepare':
        this.#prepare(order);
        return;
      case 'start':
        void this.#start(order.slots);
        return;
      case 'signal':
        this.#ranks.get(order.rank)?.signal(order.signal);
        return;
      case 'control-block':
        this.#host?.useControlBlock(order.path, order.workers);
        for (const rank of this.#endedRanks) this.#reportTestament(rank);
        return;
      case 'look':
        this.#reportView();
        return;
      case 'record':
        this.#host?.record(order.order);
        return;
      case 'notice':
        this.#host?.notice();
        return;
      case 'news':
        this.#host?.tellNews(order.news);
        return;
      case 'credit':
        this.#pumps.get(`${order.rank} ${order.stream}`)?.credit(order.bytes);
        return;
      case 'terminal':
        this.#host?.resizeTerminal(order.columns);
        return;
      case 'heartbeat':
        return;
      default:
        order satisfies never;
    }
  }

  #prepare(order: PrepareOrder): void {
    if (this.#isEnding || this.#host !== undefined) return;
    this.#silence.stop();
    this.#silence = this.#detectSilence(order.silenceMs);
    try {
      this.#host = this.#createHost(order);
    } catch (error) {
      if (!HorovodError.is(error)) throw error;
      this.#report({ op: 'refused', why: error.detail });
    }
  }

  async #start(slots: readonly Slot[]): Promise<void> {
    if (this.#isEnding || this.#host === undefined) return;
    const started = await this.#host.start(slots);
    for (const rank of started) this.#ranks.set(numberOf(rank.slot), rank);
    this.#report({ op: 'started', pids: started.map(({ slot, pid }) => [numberOf(slot), pid ?? null]) });
    for (const rank of started) void this.#watch(rank);
  }

  #detectSilence(limitMs: number): SilenceDetector<'launcher'> {
    const silence = new SilenceDetector<'launcher'>(limitMs, () => this.end(1));
    silence.heard('launcher');
    return silence;
  }

  #createHost(order: PrepareOrder): LocalRanks {
    const own = processEnvironment();
    const { hostname, slotCount, words, execPath, execArgv, jobId, environment, rendezvousAddress, graceMs } =
      order;
    const remark = (isImportant: boolean) => (text: string) =>
      this.#report({ op: 'remark', text, isImportant });
    const secret = this.#facts.secret ?? JobSecret.fromHex(order.secret ?? '');
    if (secret === undefined) throw new HorovodError('ERR_HVD_RENDEZVOUS', 'the job has no secret.');
    const [given = '', ...args] = words;
    const file = order.sent === undefined ? given : this.#keep(order.sent);
    // Node may be at another path here than on the machine of horovodrun.
    const program = file === execPath && !existsSync(file) ? process.execPath : ownScript(file);
    const corePinning = order.pinCores ? new CorePinning(slotCount, remark(true)) : undefined;
    const hint = order.pinCores ? undefined : crowdedHint(slotCount);
    if (hint !== undefined) remark(true)(hint);
    const driverEnvironment = receivedEnvironment(own, order.forwarded, existsSync);
    const { flightDirectory } = driverSettings(driverEnvironment, environment);
    const gpus = order.pinGpus ? planGpus(own['CUDA_VISIBLE_DEVICES'], slotCount) : undefined;
    const { place } = this.#facts;
    this.#guardian = Guardian.start(jobId, own['PATH'], place?.name);
    const ofPlace = place === undefined ? {} : variablesOf(place);
    return new LocalRanks({
      hostname,
      environment: { ...environment, ...ofPlace },
      secret,
      jobId,
      rendezvousAddress,
      graceMs,
      corePinning,
      gpus,
      terminalColumns: order.terminalColumns,
      command: resolveCommand([program, ...args], { execPath: process.execPath, execArgv }),
      driverEnvironment,
      guardian: this.#guardian,
      explain: remark(false),
      warn: remark(true),
      watch:
        order.hangTimeoutMs === undefined
          ? undefined
          : this.#processWatch(order.hangTimeoutMs, new FlightRecords(flightDirectory, jobId, true)),
    });
  }

  /** Where the program is now. */
  #keep({ name, base64 }: SentProgram): string {
    const place = this.#facts.place?.name ?? String(process.pid);
    if (basename(name) !== name) throw new HorovodError('ERR_HVD_HOST', `${name} is not the name of a file.`);
    const folder = resolve(`.horovod-${place}`);
    try {
      mkdirSync(folder, { mode: 0o700 });
      this.#folder = folder;
      writeFileSync(join(folder, name), Buffer.from(base64, 'base64'));
    } catch (error) {
      const why = `${name} cannot be written below ${process.cwd()}: ${(error as Error).message}.`;
      throw new HorovodError('ERR_HVD_HOST', why, { cause: error });
    }
    return join(folder, name);
  }

  #processWatch(hangTimeoutMs: number, records: FlightRecords): ProcessWatchOptions {
    return {
      hangTimeoutMs,
      onStopped: (rank, isStopped) => this.#report({ op: 'stopped', rank, isStopped }),
      onHanging: (rank, generation) => {
        // They show what it waits for. horovodrun ends it a moment later.
        this.#report({ op: 'remark', text: records.ask(generation), isImportant: false });
        this.#report({ op: 'hanging', rank, generation });
      },
    };
  }

  async #watch(rank: StartedRank): Promise<void> {
    const pumps = (['stdout', 'stderr'] as const).map((stream) => this.#pump(rank, stream));
    const { end, spawnError } = await rank.ended;
    this.#endedRanks.add(rank);
    this.#reportTestament(rank);
    const number = numberOf(rank.slot);
    this.#report({ op: 'ended', rank: number, end, spawnError });
    await rank.cleared;
    this.#report({ op: 'cleared', rank: number });
    for (const pump of pumps) pump.endWhenQuiet();
  }

  #pump(rank: StartedRank, stream: StreamName): OutputPump {
    const number = numberOf(rank.slot);
    const pump = new OutputPump(rank[stream], {
      send: (bytes) => this.#report({ op: 'output', rank: number, stream, bytes }),
      end: () => this.#report({ op: 'output-end', rank: number, stream }),
    });
    this.#pumps.set(`${number} ${stream}`, pump);
    return pump;
  }

  #reportTestament(rank: StartedRank): void {
    const { testament, slot } = rank;
    if (testament !== undefined) this.#report({ op: 'testament', rank: numberOf(slot), testament });
  }

  #reportView(): void {
    const view = this.#host?.look();
    if (view === undefined) return;
    // JSON has no NaN.
    const named = (_key: string, value: unknown) =>
      typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
    this.#report({ op: 'view', json: JSON.stringify(view, named) });
  }

  async #endAll(exitCode: number): Promise<void> {
    this.#silence.stop();
    const ranks = [...this.#ranks.values()];
    for (const rank of ranks) if (!this.#endedRanks.has(rank)) rank.signal('SIGTERM');
    const allEnded = Promise.all(ranks.map(({ ended }) => ended));
    await Promise.race([allEnded, sleep(orphanGraceMs)]);
    for (const rank of ranks) if (!this.#endedRanks.has(rank)) rank.signal('SIGKILL');
    // Processes that a rank has left running may take `graceMs` to end; the guardian kills them if they take longer.
    const allCleared = Promise.all(ranks.map(({ cleared }) => cleared)).then(() => true);
    const isClear = await Promise.race([allCleared, sleep(orphanGraceMs, false)]);
    await this.#host?.close();
    if (isClear) await this.#guardian?.dismiss();
    clearInterval(this.#heartbeat);
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
    this.#finished.resolve(exitCode);
  }
}

/** The package may be at another path here: then the program of the ranks of run() is that of this package. */
function ownScript(file: string): string {
  const isOurs = /\/launch\/run\/rank-main\.js$/.test(file) && !existsSync(file);
  return isOurs ? fileURLToPath(new URL('../run/rank-main.js', import.meta.url)) : file;
}

function variablesOf({ name, gpus }: Place): Record<string, string> {
  const visible = gpus === undefined ? {} : { CUDA_VISIBLE_DEVICES: gpus };
  return { ...visible, [settingsTable.place.env as string]: name };
}
