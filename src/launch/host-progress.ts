// Reports which hosts have not answered yet, if that takes long.

import { type Phase, type ProgressClock, startPhase } from '../console/progress.ts';

export class HostProgress {
  readonly #missing: Set<string>;
  readonly #total: number;
  readonly #phase: Phase;

  constructor(hosts: readonly string[], say: (text: string) => void, clock?: ProgressClock) {
    this.#missing = new Set(hosts);
    this.#total = hosts.length;
    const what = 'connecting to the hosts';
    this.#phase = startPhase({ what, log: { tell: say }, ...(clock === undefined ? {} : { clock }) });
    this.#report();
  }

  answered(host: string): void {
    this.#missing.delete(host);
    this.#report();
  }

  end(): void {
    this.#phase.end();
  }

  #report(): void {
    const names = [...this.#missing];
    const shown = names.length > 8 ? [...names.slice(0, 8), '…'] : names;
    this.#phase.report({
      done: this.#total - names.length,
      total: this.#total,
      unit: 'hosts',
      ...(names.length === 0 ? {} : { detail: `waiting for ${shown.join(', ')}` }),
    });
  }
}
