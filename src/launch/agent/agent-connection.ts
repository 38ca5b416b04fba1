// The connection to one agent, over whatever channel. States: waiting for its hello → talking → over. The listener gets the reports in
// order, and one call if the agent is lost.

import { ProtocolError } from '../../net/frames.ts';
import { SilenceDetector } from '../../net/silence.ts';
import type { AgentChannel } from './channel.ts';
import { decodeBody, encodeBody, type Hello, heartbeatMs, type Order, type Report } from './protocol.ts';

export interface AgentConnectionOptions {
  /** The name of the host in the job. */
  readonly host: string;
  readonly channel: AgentChannel;
  readonly startTimeoutMs: number;
  readonly silenceMs: number;
}

export interface AgentListener {
  onReport(report: Report): void;
  /** `why` completes 'host2: …'. */
  onLost(why: string): void;
}

/** Why there is no connection. */
export type NotConnected =
  | { readonly kind: 'time up' }
  /** `why` completes 'host2: …'. */
  | { readonly kind: 'ended'; readonly why: string };

export class AgentConnection {
  host: string;
  readonly #channel: AgentChannel;
  readonly #silenceMs: number;
  #isOver = false;
  #hello: Hello | undefined;
  #onHello: () => void = () => undefined;
  #listener: AgentListener | undefined;
  /** Reports that came before listen(). */
  readonly #unheard: Report[] = [];
  #lost: string | undefined;
  #onLost: (why: string) => void = () => undefined;
  #silence: SilenceDetector<'agent'> | undefined;
  #heartbeat: NodeJS.Timeout | undefined;

  private constructor({ host, channel, silenceMs }: AgentConnectionOptions) {
    this.host = host;
    this.#channel = channel;
    this.#silenceMs = silenceMs;
    channel.listen({
      onHeard: () => this.#silence?.heard('agent'),
      onMessage: (body) => this.#receive(body),
      onEnd: (why) => this.#lose(why),
    });
  }

  /** Waits until the agent has introduced itself. If it does not, the channel stays open for whoever wants to know why. */
  static async open(options: AgentConnectionOptions): Promise<AgentConnection | NotConnected> {
    const connection = new AgentConnection(options);
    let deadline: NodeJS.Timeout | undefined;
    const outcome = await Promise.race([
      new Promise<'hello'>((resolve) => {
        connection.#onHello = () => resolve('hello');
      }),
      new Promise<NotConnected>((resolve) => {
        connection.#onLost = (why) => resolve({ kind: 'ended', why });
        deadline = setTimeout(() => resolve({ kind: 'time up' }), options.startTimeoutMs);
      }),
    ]);
    clearTimeout(deadline);
    if (outcome === 'hello') return connection;
    connection.#stop();
    return outcome;
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
    if (!this.#isOver) this.#channel.send(encodeBody(order));
  }

  /** Ends the agent, which has nothing left to do. */
  async close(): Promise<void> {
    this.#stop();
    await this.#channel.close();
  }

  #receive(body: Buffer): void {
    if (this.#isOver) return;
    try {
      const report = decodeBody(body) as Report;
      if (this.#hello === undefined) {
        if (report.op !== 'hello') throw new ProtocolError('a message before its hello');
        this.#greet(report);
      } else if (this.#listener === undefined) this.#unheard.push(report);
      else this.#listener.onReport(report);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#lose(`its agent sent ${error.message}, which is not a valid message`);
    }
  }

  #greet(hello: Hello): void {
    this.#hello = hello;
    const why = `no message from its agent for ${this.#silenceMs / 1000} s (the network is down, or the machine is frozen or down)`;
    this.#silence = new SilenceDetector(this.#silenceMs, () => this.#lose(why));
    this.#silence.heard('agent');
    this.#heartbeat = setInterval(() => this.send({ op: 'heartbeat' }), heartbeatMs);
    this.#onHello();
  }

  #lose(why: string): void {
    if (this.#isOver) return;
    this.#stop();
    this.#lost = why;
    if (this.#hello !== undefined) this.#channel.kill();
    this.#onLost(why);
    this.#listener?.onLost(why);
  }

  #stop(): void {
    this.#isOver = true;
    this.#silence?.stop();
    clearInterval(this.#heartbeat);
  }
}
