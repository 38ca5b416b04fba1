// The connection to one agent, from the start of ssh to its end. States: connecting (lines) → talking (frames) → over. The
// listener gets the reports in order, and one call if the agent is lost.

import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessEnd } from '../../control/process-status.ts';
import { ProtocolError } from '../../net/frames.ts';
import { SilenceDetector } from '../../net/silence.ts';
import {
  encodeMessage,
  type Hello,
  heartbeatMs,
  MessageReader,
  type Order,
  PreambleReader,
  protocolVersion,
  type Report,
} from '../agent/protocol.ts';
import type { Guardian } from '../spawn/guardian.ts';
import { type Evidence, type HostProblem, hostProblem, lastLine, versionProblem } from './host-problem.ts';
import { type RemotePlaces, remoteCommand, type SshOptions, sshCommand } from './ssh-command.ts';

export interface AgentOptions {
  readonly host: string;
  readonly places: RemotePlaces;
  readonly ssh: SshOptions;
  readonly version: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly guardian: Guardian;
  readonly startTimeoutMs: number;
  readonly silenceMs: number;
}

export interface AgentListener {
  onReport(report: Report): void;
  /** `why` completes 'host2: …'. */
  onLost(why: string): void;
}

/** When each phase ended, in milliseconds from the start. */
export interface AgentTimes {
  shellMs: number;
  helloMs: number;
}

/** How much of ssh's stderr is kept. */
const stderrBytes = 8192;
/** How long to wait for the rest of its output after ssh has ended. */
const lastWordsMs = 1000;
/** How long an agent may take to end. Its ranks have ended before. */
const closeMs = 4000;

export class AgentConnection {
  readonly host: string;
  readonly times: AgentTimes = { shellMs: 0, helloMs: 0 };
  readonly #options: AgentOptions;
  readonly #child: ChildProcess;
  readonly #preamble = new PreambleReader();
  readonly #reader = new MessageReader<Report>();
  readonly #exited: Promise<ProcessEnd>;
  readonly #startedAt = performance.now();
  #state: 'connecting' | 'talking' | 'over' = 'connecting';
  #hello: Hello | undefined;
  #stderr = '';
  #hasShell = false;
  #problem: Evidence['problem'];
  #spawnError: NodeJS.ErrnoException | undefined;
  #listener: AgentListener | undefined;
  /** Reports that came before listen(). */
  readonly #unheard: Report[] = [];
  #lost: string | undefined;
  #silence: SilenceDetector<'agent'> | undefined;
  #heartbeat: NodeJS.Timeout | undefined;

  private constructor(options: AgentOptions) {
    this.#options = options;
    this.host = options.host;
    const { file, args } = sshCommand(options.host, remoteCommand(options.places), options.ssh);
    // In a separate session: Ctrl-C reaches only horovodrun, and ssh has no terminal for questions.
    const child = spawn(file, args, { detached: true, env: options.environment, stdio: 'pipe' });
    this.#child = child;
    if (child.pid !== undefined) options.guardian.add(child.pid);
    child.stdin.on('error', () => undefined);
    child.stdout.on('error', () => undefined);
    child.stderr.on('data', (piece: Buffer) => {
      this.#stderr = (this.#stderr + piece.toString('utf8')).slice(-stderrBytes);
    });
    // Not 'close': a background process of ssh (ControlPersist) may keep stderr open for ever.
    const stdoutEnded = new Promise<void>((resolve) => child.stdout.once('close', () => resolve()));
    this.#exited = new Promise((resolve) => {
      child.once('error', (error: NodeJS.ErrnoException) => {
        if (child.pid !== undefined) return;
        this.#spawnError = error;
        resolve({ code: 127 });
      });
      child.once('exit', (code, signal) => {
        options.guardian.remove(child.pid as number);
        void Promise.race([stdoutEnded, sleep(lastWordsMs)]).then(() =>
          resolve(signal === null ? { code: code ?? 0 } : { signal }),
        );
      });
    });
  }

  /** Starts an agent. Resolves to a HostProblem if that fails or takes too long. */
  static async open(options: AgentOptions): Promise<AgentConnection | HostProblem> {
    const connection = new AgentConnection(options);
    return connection.#connect();
  }

  get hello(): Hello {
    return this.#hello as Hello;
  }

  listen(listener: AgentListener): void {
    this.#listener = listener;
    for (const report of this.#unheard.splice(0)) listener.onReport(report);
    if (this.#lost !== undefined) listener.onLost(this.#lost);
  }

  send(order: Order): void {
    if (this.#state === 'talking') this.#child.stdin?.write(encodeMessage(order));
  }

  /** Ends the agent, which has nothing left to do. */
  async close(): Promise<void> {
    this.#stop();
    this.#child.stdin?.end();
    const timer = setTimeout(() => this.#kill(), closeMs);
    await this.#exited;
    clearTimeout(timer);
  }

  async #connect(): Promise<AgentConnection | HostProblem> {
    const { host, startTimeoutMs, version } = this.#options;
    let deadline: NodeJS.Timeout | undefined;
    const greeted = new Promise<'greeted'>((resolve) => {
      this.#child.stdout?.on('data', (piece: Buffer) => {
        this.#receive(piece);
        if (this.#hello !== undefined) resolve('greeted');
      });
    });
    const timeUp = new Promise<'time up'>((resolve) => {
      deadline = setTimeout(() => resolve('time up'), startTimeoutMs);
    });
    const outcome = await Promise.race([greeted, timeUp, this.#exited]);
    clearTimeout(deadline);
    if (outcome !== 'greeted') {
      this.#kill();
      this.#stop();
      return hostProblem(this.#evidence(outcome === 'time up' ? undefined : outcome));
    }
    const mismatch = versionProblem(host, { version, protocol: protocolVersion }, this.hello);
    if (mismatch !== undefined) {
      await this.close();
      return mismatch;
    }
    this.#heartbeat = setInterval(() => this.send({ op: 'heartbeat' }), heartbeatMs);
    void this.#exited.then((end) => this.#lose(this.#endText(end)));
    return this;
  }

  #receive(piece: Buffer): void {
    this.#silence?.heard('agent');
    if (this.#state === 'over') return;
    try {
      let bytes: Buffer | undefined = piece;
      if (this.#state === 'connecting') {
        const { lines, frames } = this.#preamble.push(piece);
        for (const { word, rest } of lines) this.#hear(word, rest);
        bytes = frames;
        if (frames !== undefined) this.#talk();
      }
      if (bytes === undefined) return;
      for (const report of this.#reader.push(bytes)) {
        if (report.op === 'hello') this.#greet(report);
        else if (this.#listener === undefined) this.#unheard.push(report);
        else this.#listener.onReport(report);
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#stderr += `\nits agent sent ${error.message}`;
      this.#lose(`its agent sent ${error.message}, which is not a valid message`);
    }
  }

  #hear(word: string, rest: string): void {
    if (word === 'shell') {
      this.#hasShell = true;
      this.times.shellMs = performance.now() - this.#startedAt;
    }
    if (word === 'problem') {
      const [kind = '', ...details] = rest.split(' ');
      this.#problem = { word: kind, rest: details.join(' ') };
    }
  }

  #talk(): void {
    this.#state = 'talking';
    const { silenceMs } = this.#options;
    const why = `no message from its agent for ${silenceMs / 1000} s (the network is down, or the machine is frozen or down)`;
    this.#silence = new SilenceDetector(silenceMs, () => this.#lose(why));
    this.#silence.heard('agent');
  }

  #greet(hello: Hello): void {
    this.#hello = hello;
    this.times.helloMs = performance.now() - this.#startedAt;
  }

  #lose(why: string): void {
    if (this.#state === 'over') return;
    this.#stop();
    this.#lost = why;
    this.#kill();
    this.#listener?.onLost(why);
  }

  #stop(): void {
    this.#state = 'over';
    this.#silence?.stop();
    clearInterval(this.#heartbeat);
  }

  /** Its group: ssh may have a ProxyCommand. */
  #kill(): void {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // It has just ended.
    }
  }

  #endText(end: ProcessEnd): string {
    const program = this.#program;
    const said = lastLine(this.#stderr);
    if ('signal' in end) return `its connection ended (${program} was killed by ${end.signal})`;
    if (end.code === 0 && this.#options.ssh.remoteShell !== undefined) {
      return `its agent got no input: ${program} must pass stdin on (kubectl exec needs -i)`;
    }
    // ssh exits with 255 if it fails itself, and if a signal killed the agent.
    return end.code === 255
      ? `its agent was killed, or its connection broke (${program} exited with code 255${said})`
      : `its agent ended (exit code ${end.code}${said})`;
  }

  #evidence(end: ProcessEnd | undefined): Evidence {
    const { host, places, startTimeoutMs, ssh } = this.#options;
    const flags = [
      ...(ssh.port === undefined ? [] : ['-p', String(ssh.port)]),
      ...(ssh.identityFile === undefined ? [] : ['-i', ssh.identityFile]),
    ];
    return {
      host,
      directory: places.directory,
      agentPath: places.agents[0] ?? '',
      stderr: this.#stderr,
      hasShell: this.#hasShell,
      problem: this.#problem,
      end,
      spawnError: this.#spawnError,
      tryByHand: [this.#program, ...flags, host].join(' '),
      waitedMs: startTimeoutMs,
      connectTimeoutMs: ssh.connectTimeoutMs,
    };
  }

  get #program(): string {
    return this.#options.ssh.remoteShell?.[0] ?? 'ssh';
  }
}
