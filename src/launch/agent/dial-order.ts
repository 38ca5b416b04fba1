// What an agent needs to dial back from the place in which a cluster manager has started it.

/** The line that starts it. */
export interface DialOrder {
  /** Of the launcher, host:port. */
  readonly addresses: readonly string[];
  /** In hex. Nobody else can read the agent's stdin, and no message carries the secret. */
  readonly secret: string;
  readonly jobId: string;
  /** The number of this place. */
  readonly place: number;
  /** The start of this place, counted from 0: another one of the same place is another agent. */
  readonly attempt: number;
  readonly timeoutMs: number;
  /** Ranks run here, if it exists; otherwise where the task runs. */
  readonly directory?: string | undefined;
}

export const agentsNumber = 0;
export function attemptChannel(attempt: number): string {
  return `attempt ${attempt}`;
}
