// A program of bench:data that stays and works on one task after the other: a line of JSON in, a line of JSON out.
import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';

const canPin = spawnSync('taskset', ['--version']).status === 0;

export class Contestant {
  /** `core`: the processor that it is bound to, where taskset is installed. */
  constructor(name, command, args, { core, env = {} } = {}) {
    this.name = name;
    this.isPinned = core !== undefined && canPin;
    const [program, ...rest] = [...pinned(core), command, ...args];
    this.process = spawn(program, rest, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', ...env },
    });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  async run(task) {
    this.process.stdin.write(`${JSON.stringify(task)}\n`);
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`${this.name} has ended`);
    return JSON.parse(value);
  }

  close() {
    this.process.stdin.end();
  }
}

/** The words before a command that bind it to a processor; none if that is not possible, or not asked for. */
export function pinned(core) {
  return core !== undefined && canPin ? ['taskset', '-c', String(core)] : [];
}

export function quantile(list, share) {
  const sorted = [...list].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return low + (high - low) * (place - Math.floor(place));
}

/** Median and quartiles, as tables show them. */
export function spreadOf(list) {
  return { median: quantile(list, 0.5), quartiles: [quantile(list, 0.25), quantile(list, 0.75)] };
}
