// The channel to an agent that ssh has started: its stdin and stdout, and what can be known of how ssh ended. States: connecting
// (lines) → talking (frames) → over.

import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessEnd } from '../../control/process-status.ts';
import { encodeFrame, FrameReader, ProtocolError } from '../../net/frames.ts';
import type { AgentChannel, ChannelListener } from '../agent/channel.ts';
import { maxFrameBytes, PreambleReader } from '../agent/protocol.ts';
import type { Guardian } from '../spawn/guardian.ts';
import { type Evidence, lastLine } from './host-problem.ts';
import { type RemotePlaces, remoteCommand, type SshOptions, sshCommand } from './ssh-command.ts';

export interface SshChannelOptions {
  readonly host: string;
  readonly places: RemotePlaces;
  readonly ssh: SshOptions;
  readonly environment: NodeJS.ProcessEnv;
  readonly guardian: Guardian;
  readonly startTimeoutMs: number;
}

/** How much of ssh's stderr is kept. */
const stderrBytes = 8192;
/** How long to wait for the rest of its output after ssh has ended. */
const lastWordsMs = 1000;
/** How long an agent may take to end. Its ranks have ended before. */
const closeMs = 4000;

export class SshChannel implements AgentChannel {
  /** When the remote command began, in milliseconds from the start. */
  shellMs = 0;
  readonly startedAt: number = performance.now();
  readonly #options: SshChannelOptions;
  readonly #child: ChildProcess;
  readonly #preamble = new PreambleReader();
  readonly #reader = new FrameReader(maxFrameBytes);
  readonly #exited: Promise<ProcessEnd>;
  #state: 'connecting' | 'talking' | 'over' = 'connecting';
  #stderr = '';
  #hasShell = false;
  #problem: Evidence['problem'];
  #end: ProcessEnd | undefined;
  #spawnError: NodeJS.ErrnoException | undefined;

  constructor(options: SshChannelOptions) {
    this.#options = options;
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

  listen(listener: ChannelListener): void {
    const end = (why: string) => {
      if (this.#state === 'over') return;
      this.#state = 'over';
      listener.onEnd(why);
    };
    this.#child.stdout?.on('data', (piece: Buffer) => {
      listener.onHeard();
      try {
        for (const body of this.#framesIn(piece)) listener.onMessage(body);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        this.#stderr += `\nits agent sent ${error.message}`;
        end(`its agent sent ${error.message}, which is not a valid message`);
      }
    });
    void this.#exited.then((how) => {
      this.#end = how;
      end(this.#endText(how));
    });
  }

  send(body: Buffer): void {
    if (this.#state === 'talking') this.#child.stdin?.write(encodeFrame(body, maxFrameBytes));
  }

  async close(): Promise<void> {
    this.#state = 'over';
    this.#child.stdin?.end();
    const timer = setTimeout(() => this.kill(), closeMs);
    await this.#exited;
    clearTimeout(timer);
  }

  /** Its group: ssh may have a ProxyCommand. */
  kill(): void {
    this.#state = 'over';
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // It has just ended.
    }
  }

  /** How far it came, for an agent that did not introduce itself. */
  evidence(isTimeUp: boolean): Evidence {
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
      end: isTimeUp ? undefined : (this.#end ?? { signal: 'SIGKILL' }),
      spawnError: this.#spawnError,
      tryByHand: [this.#program, ...flags, host].join(' '),
      waitedMs: startTimeoutMs,
      connectTimeoutMs: ssh.connectTimeoutMs,
    };
  }

  #framesIn(piece: Buffer): readonly Buffer[] {
    if (this.#state === 'over') return [];
    if (this.#state === 'talking') return this.#reader.push(piece);
    const { lines, frames } = this.#preamble.push(piece);
    for (const { word, rest } of lines) this.#hear(word, rest);
    if (frames === undefined) return [];
    this.#state = 'talking';
    return this.#reader.push(frames);
  }

  #hear(word: string, rest: string): void {
    if (word === 'shell') {
      this.#hasShell = true;
      this.shellMs = performance.now() - this.startedAt;
    }
    if (word === 'problem') {
      const [kind = '', ...details] = rest.split(' ');
      this.#problem = { word: kind, rest: details.join(' ') };
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

  get #program(): string {
    return this.#options.ssh.remoteShell?.[0] ?? 'ssh';
  }
}
