// A job that mpirun starts (`horovodrun --mpi`). The exit code of mpirun is that of the job. Its output is split by rank, so
// that it looks like that of any other job, also in files. States: running → ending (a signal came) → over.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { networkInterfaces } from 'node:os';
import { PassThrough, type Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { signalNumber } from '../../control/process-status.ts';
import { nearInterfaces } from '../../net/near-interfaces.ts';
import { resolveHost } from '../../net/resolve-host.ts';
import { settingsTable } from '../../settings/table.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { JobOutput } from '../job-request.ts';
import { createOutputDirectories, RankOutput } from '../output/rank-output.ts';
import { Guardian } from '../spawn/guardian.ts';
import { describeMpi, type Mpirun } from './mpi-family.ts';
import { type MpirunCommand, type MpirunRequest, mpirunCommand } from './mpirun-command.ts';
import { TagReader } from './tag-reader.ts';

export interface MpirunJobRequest extends Omit<MpirunRequest, 'file' | 'family'>, JobOutput {
  readonly mpirun: Mpirun;
  /** The environment of mpirun. */
  readonly driverEnvironment: NodeJS.ProcessEnv;
  /** Between the first signal and SIGKILL. mpirun needs some of it to stop its ranks. */
  readonly graceMs?: number;
}

export class MpirunJob {
  readonly jobId: string;
  readonly #child: ChildProcess;
  readonly #guardian: Guardian;
  readonly #request: MpirunJobRequest;
  readonly #outputs: RankOutput[] = [];
  #interruption: NodeJS.Signals | undefined;
  #spawnError: Error | undefined;
  readonly #ended: Promise<number>;

  private constructor(request: MpirunJobRequest, command: MpirunCommand, jobId: string) {
    this.#request = request;
    this.jobId = jobId;
    this.#guardian = Guardian.start(jobId, request.driverEnvironment['PATH']);
    const child = spawn(command.file, command.args, {
      // In a separate group: Ctrl-C reaches only horovodrun, which passes it on once.
      detached: true,
      env: { ...request.driverEnvironment, ...request.environment, ...command.environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    if (child.pid !== undefined) this.#guardian.add(child.pid);
    this.#ended = new Promise((resolve) => {
      child.once('exit', (code, signal) =>
        resolve(signal === null ? (code ?? 0) : 128 + signalNumber(signal)),
      );
      child.on('error', (error: NodeJS.ErrnoException) => {
        if (child.pid !== undefined) return;
        this.#spawnError = error;
        resolve(error.code === 'ENOENT' ? 127 : 126);
      });
    });
    this.#carry(child.stdout as Readable, 'stdout');
    this.#carry(child.stderr as Readable, 'stderr');
  }

  static async start(request: MpirunJobRequest): Promise<MpirunJob> {
    const { mpirun, slots, outputDirectory } = request;
    if (outputDirectory !== undefined) createOutputDirectories(outputDirectory, slots.length);
    const jobId = randomBytes(8).toString('hex');
    // The guardian uses it to find ranks on this host that have outlived mpirun.
    const environment = { ...request.environment, [settingsTable.jobId.env as string]: jobId };
    const isOpenMpi = mpirun.family === 'open-mpi';
    const subnets = isOpenMpi ? await subnetsOf(request) : undefined;
    const command = mpirunCommand({
      ...request,
      environment,
      file: mpirun.file,
      family: mpirun.family,
      networkInterfaces: request.networkInterfaces ?? subnets,
    });
    request.explain(`job ${jobId}: ${slots.length} ranks, started by mpirun of ${describeMpi(mpirun)}`);
    request.explain([command.file, ...command.args].join(' '));
    return new MpirunJob({ ...request, environment }, command, jobId);
  }

  /** mpirun gets the signal and passes it on; a second signal kills everything at once. */
  interrupt(signal: NodeJS.Signals): void {
    if (this.#interruption !== undefined) {
      this.#signalGroup('SIGKILL');
      return;
    }
    this.#interruption = signal;
    this.#request.say(`received ${signal}; stopping mpirun.`);
    // mpirun stops its ranks on SIGINT and SIGTERM, but only passes SIGHUP on.
    this.#child.kill(signal === 'SIGINT' ? 'SIGINT' : 'SIGTERM');
    const patience = setTimeout(() => this.#signalGroup('SIGKILL'), this.#request.graceMs ?? 10_000);
    void this.#ended.then(() => clearTimeout(patience));
  }

  /** Resolves when mpirun has ended and all output is out: its exit code. */
  async finish(): Promise<number> {
    const code = await this.#ended;
    if (this.#spawnError !== undefined) {
      this.#request.say(`cannot run ${this.#request.mpirun.file}: ${this.#spawnError.message}.`);
    }
    await Promise.all(this.#outputs.map((output) => output.finishWithin(1000)));
    await this.#guardian.dismiss();
    if (this.#interruption !== undefined) return 128 + signalNumber(this.#interruption);
    if (code !== 0) this.#request.say(`mpirun failed with exit code ${code}.`);
    return code;
  }

  /** Splits one stream of mpirun into the streams of the ranks. */
  #carry(source: Readable, name: 'stdout' | 'stderr'): void {
    const { slots, stdout, stderr, prefix, outputDirectory: directory, say: notice, onLine } = this.#request;
    const target = name === 'stdout' ? stdout : stderr;
    const size = slots.length;
    const streams = slots.map(({ rank }: Slot) => {
      const stream = new PassThrough();
      this.#outputs.push(
        new RankOutput(stream, target, { rank, name, prefix, directory, size, notice, onLine }),
      );
      return stream;
    });
    const own = new PassThrough();
    this.#outputs.push(new RankOutput(own, target, { rank: 0, name, prefix: 'none', size, notice }));
    const reader = new TagReader();
    const decoder = new StringDecoder('utf8');
    const write = (pieces: ReturnType<TagReader['push']>): boolean =>
      pieces.map(({ rank, text }) => (streams[rank ?? -1] ?? own).write(text)).every(Boolean);
    source.on('data', (bytes: Buffer) => {
      if (write(reader.push(decoder.write(bytes)))) return;
      // A slow reader makes mpirun wait, and so the ranks.
      source.pause();
      const full = [...streams, own].filter((stream) => stream.writableNeedDrain);
      void Promise.all(full.map((stream) => new Promise((done) => stream.once('drain', done)))).then(() =>
        source.resume(),
      );
    });
    source.once('close', () => {
      write(reader.push(decoder.end()));
      write(reader.flush());
      for (const stream of [...streams, own]) stream.end();
    });
  }

  #signalGroup(signal: NodeJS.Signals): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, signal);
    } catch {
      // It has already ended.
    }
  }
}

/** How long it may take to resolve the name of a host; mpirun may know names that we do not. */
const resolveMs = 5000;

/** See near-interfaces.ts. */
async function subnetsOf({ slots, hasRemoteHosts }: MpirunJobRequest): Promise<string[] | undefined> {
  if (!hasRemoteHosts) return undefined;
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const names = [...new Set(slots.map(({ hostname }) => hostname))];
  const addresses = await Promise.all(names.map((name) => resolveHost(name, resolveMs)));
  const isHere = (list: readonly string[]) =>
    list.some((address) => address.startsWith('127.') || own.some((one) => one.address === address));
  const near = nearInterfaces(addresses.filter((list) => !isHere(list)));
  return near?.map(({ cidr }) => cidr);
}
