// Notices when the other side has not been heard for too long. Counted in turns of the event loop and not by the
// clock: a process that was itself stopped or starved has first to read what has come meanwhile.

const turns = 20;

export class SilenceWatch {
  readonly #timer: NodeJS.Timeout;
  #quietTurns = 0;

  constructor(limitMs: number, onSilence: () => void) {
    this.#timer = setInterval(() => {
      this.#quietTurns++;
      if (this.#quietTurns !== turns) return;
      clearInterval(this.#timer);
      onSilence();
    }, limitMs / turns);
  }

  /** Something has come. */
  heard(): void {
    this.#quietTurns = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
