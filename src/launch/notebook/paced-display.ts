// Shows the newest content of a display, but not too often: at most four boxes a second, and a line of text every two seconds or less often. One is sent
// at a time, and the last one is always sent.

import { type ProgressClock, systemClock } from '../../console/progress.ts';
import type { KernelDisplay } from './kernel-display.ts';
import type { CellContent } from './progress-box.ts';

const boxPauseMs = 250;
/** Lines stay, so there are fewer of them the longer a job runs. */
const [minTextPauseMs, maxTextPauseMs, textShare] = [2000, 30_000, 0.05] as const;

export class PacedDisplay {
  readonly #display: KernelDisplay;
  readonly #content: () => CellContent;
  readonly #clock: ProgressClock;
  readonly #startedAt: number;
  #cancel: (() => void) | undefined;
  #sending: Promise<void> = Promise.resolve();
  #isSending = false;
  #isDirty = false;
  #sentAt = -Infinity;

  constructor(display: KernelDisplay, content: () => CellContent, clock: ProgressClock = systemClock) {
    this.#clock = clock;
    this.#startedAt = clock.nowMs();
    this.#display = display;
    this.#content = content;
  }

  /** There is something new. */
  changed(): void {
    this.#isDirty = true;
    if (this.#isSending || this.#cancel !== undefined) return;
    const waitMs = Math.max(0, this.#sentAt + this.#pauseMs() - this.#clock.nowMs());
    this.#cancel = this.#clock.after(waitMs, () => this.#send());
  }

  /** Shows the last content. */
  async end(): Promise<void> {
    this.#cancel?.();
    this.#isDirty = false;
    // What is on its way must not replace it.
    await this.#sending;
    this.#cancel?.();
    await this.#display.show(this.#content());
  }

  #pauseMs(): number {
    if (this.#display.kind !== 'text') return boxPauseMs;
    const share = (this.#clock.nowMs() - this.#startedAt) * textShare;
    return Math.min(Math.max(share, minTextPauseMs), maxTextPauseMs);
  }

  #send(): void {
    this.#cancel = undefined;
    this.#isDirty = false;
    this.#isSending = true;
    this.#sentAt = this.#clock.nowMs();
    this.#sending = this.#display.show(this.#content()).finally(() => {
      this.#isSending = false;
      if (this.#isDirty) this.changed();
    });
  }
}
