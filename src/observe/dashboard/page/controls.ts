// The two things that the page can ask for, if it may: recording a timeline, and stopping the job. What the server answers is shown.

import { find, setText } from './dom.ts';
import type { History } from './history.ts';

const steps = 50;
const timeoutMs = 15_000;

export class Controls {
  readonly #record = find<HTMLButtonElement>('record');
  readonly #stop = find<HTMLButtonElement>('stop');
  readonly #confirm = find<HTMLDialogElement>('confirm-stop');

  constructor() {
    this.#record.addEventListener('click', () => {
      void this.#ask('record', { steps }, `Recording ${steps} steps; the timeline appears under Events.`);
    });
    this.#stop.addEventListener('click', () => {
      this.#confirm.returnValue = '';
      this.#confirm.showModal();
    });
    this.#confirm.addEventListener('close', () => {
      if (this.#confirm.returnValue === 'yes') void this.#ask('stop', {}, 'Stopping the job …');
    });
  }

  render({ hasControl, canRecord, end }: History): void {
    this.#record.hidden = !canRecord;
    find('control').hidden = !hasControl || end !== undefined;
    if (end !== undefined && this.#confirm.open) this.#confirm.close('no');
  }

  async #ask(what: 'record' | 'stop', order: object, done: string): Promise<void> {
    const button = what === 'record' ? this.#record : this.#stop;
    button.disabled = true;
    this.#say(what === 'record' ? 'Asking the ranks to record …' : 'Asking the launcher to stop …');
    try {
      const response = await fetch(what, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(order),
        signal: AbortSignal.timeout(timeoutMs),
      });
      const text = response.ok ? done : await response.text();
      this.#say(response.ok ? done : `The server says: ${text.slice(0, 500) || response.statusText}`);
    } catch (error) {
      this.#say(`The server does not answer (${error instanceof Error ? error.message : String(error)}).`);
    }
    button.disabled = false;
  }

  #say(text: string): void {
    setText(find('control-answer'), text);
  }
}
