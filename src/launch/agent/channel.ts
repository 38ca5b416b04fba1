// What the connection to an agent runs over: the pipes of an ssh process (ssh/ssh-channel.ts), or a socket on which the agent has dialed
// back (places/socket-channel.ts). A channel carries whole messages (protocol.ts) in order, and ends once.

export interface ChannelListener {
  /** Bytes have come: the other side lives. */
  onHeard(): void;
  /** The body of a message. */
  onMessage(body: Buffer): void;
  /** No message follows. `why` completes 'host2: …'. Not called after kill(). */
  onEnd(why: string): void;
}

export interface AgentChannel {
  /** Called once; what came before waits until then. */
  listen(listener: ChannelListener): void;
  send(body: Buffer): void;
  /** Nothing more is sent, with which the agent ends. Resolves when it has, or has been given up. */
  close(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
}
