// One run of bench/chaos.mjs: an elastic job in a box, for so many steps or for so many seconds with faults.
import { createHash } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { costsOf, generator, inject, planFaults } from './chaos-faults.mjs';
import { lastWords } from './cluster-jobs.mjs';
import { jsonLines } from './command.mjs';

const POLL_MS = 20;
const RANKS = 4;
/** Without a step by anybody. */
const PATIENCE_MS = 60_000;
const PROGRESS_MS = 60_000;
/** What a rank writes is read within so many steps. */
const RECENT_STEPS = 5000;
/** The first steps of a generation are slower: they belong to the fault. */
const SETTLED_MS = 1000;

/**
 * @returns `{ seconds, exitCode, steps, ends, injected, stderr }`; steps: by number, the digest of its samples in the last generation that did it;
 * injected: what each fault was, and the seconds it has cost.
 */
export async function runChaos({
  box,
  root,
  benchFolder,
  steps,
  seconds = 0,
  faults = 0,
  seed,
  say,
  signal,
}) {
  const folder = path.join(box.shared, `chaos-${Date.now()}`);
  const hostsFile = path.join(folder, 'hosts.txt');
  const script = path.join(folder, 'discover.sh');
  const events = path.join(folder, 'events');
  const stop = path.join(folder, 'stop');
  const length = steps === undefined ? ['--until', stop] : ['--steps', String(steps)];
  mkdirSync(events, { recursive: true });
  writeFileSync(hostsFile, 'host1:2\nhost2:2\n');
  writeFileSync(script, `#!/bin/sh\ncat ${hostsFile}\n`, { mode: 0o755 });
  const started = box.start(
    'host1',
    [
      ...[process.execPath, path.join(root, 'bin', 'horovodrun.js')],
      ...[
        '-np',
        String(RANKS),
        '--min-np',
        '1',
        '--max-np',
        String(RANKS),
        '--host-discovery-script',
        script,
      ],
      ...[path.join(benchFolder, 'ranks', 'chaos-training.mjs'), '--events', events, ...length],
    ],
    { env: { HOROVOD_ELASTIC_VERIFY: '1' } },
  );
  const journal = new Journal(events);
  const job = { box, hostsFile, random: generator(seed), workers: () => journal.newest() };
  const injected = [];
  const calms = [];
  const isWhole = () => journal.newest().length === RANKS;
  const { child } = started;
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  try {
    await reach(isWhole);
    const startedAt = Date.now();
    const elapsed = () => (Date.now() - startedAt) / 1000;
    const faultAt = (place) => ((place + 0.5) * seconds) / faults;
    for (const [place, kind] of planFaults(faults, seed).slice(0, faults).entries()) {
      // Faults are independent of each other: the one before has been overcome.
      const from = await settled(() => elapsed() >= faultAt(place));
      await reach(() => elapsed() >= faultAt(place) && isWhole());
      if (hasEnded()) break;
      calms.push({ from, to: moment() });
      const { generation } = journal;
      const what = await inject(kind, job);
      injected.push({ kind, step: journal.step, what });
      say(`step ${journal.step}: ${kind}: ${what}`);
      await reach(() => journal.generation > generation, PATIENCE_MS);
    }
    const from = await settled(() => elapsed() >= seconds);
    await reach(() => elapsed() >= seconds && isWhole());
    calms.push({ from, to: moment() });
    if (steps === undefined) writeFileSync(stop, '');
    await reach(() => false);
    const { exitCode, stderr } = await started.endedWithin(PATIENCE_MS);
    journal.read();
    if (exitCode !== 0) throw new Error(`exit code ${exitCode}: ${lastWords(stderr)}`);
    await box.assertNothingLeft(10_000);
    const costs = costsOf(calms);
    return {
      seconds: journal.seconds(),
      exitCode,
      ...journal.result(),
      injected: injected.map((fault, place) => ({ ...fault, seconds: costs[place] })),
      stderr,
    };
  } finally {
    if (!hasEnded()) started.kill('SIGTERM');
    await started.ended;
    rmSync(folder, { recursive: true, force: true });
  }

  function moment() {
    return { ms: performance.now(), step: journal.step };
  }

  /** When all ranks train and have got over it, or `isDue`. */
  async function settled(isDue) {
    await reach(isWhole);
    const since = performance.now();
    await reach(() => performance.now() - since >= SETTLED_MS || isDue());
    return moment();
  }

  async function reach(isThere, withinMs = Number.POSITIVE_INFINITY) {
    const since = Date.now();
    let lastChange = since;
    let lastSaid = since;
    for (let before = journal.step; !isThere() && !hasEnded(); journal.read()) {
      if (signal.aborted) throw new Error('interrupted');
      if (journal.step !== before) [before, lastChange] = [journal.step, Date.now()];
      if (Date.now() - lastChange > PATIENCE_MS)
        throw new Error(
          `no step after ${journal.step} for ${PATIENCE_MS / 1000} s: ${lastWords(started.stderr)}`,
        );
      if (Date.now() - since > withinMs)
        throw new Error(
          `${injected.at(-1).what} has not led to a reset within ${withinMs / 1000} s: ${lastWords(started.stderr)}`,
        );
      if (Date.now() - lastSaid > PROGRESS_MS) {
        lastSaid = Date.now();
        say(`step ${journal.step}${steps === undefined ? '' : ` of ${steps}`}`);
      }
      await sleep(POLL_MS);
    }
  }
}

function digest(samples) {
  return createHash('sha256').update(Uint32Array.from(samples).sort()).digest('base64').slice(0, 16);
}

/** What has been added to a file: after half an hour, it would take too long to read all of it every time. */
function readFrom(file, offset) {
  const fd = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(fstatSync(fd).size - offset);
    return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, offset));
  } finally {
    closeSync(fd);
  }
}

/** What the workers have written so far. */
class Journal {
  step = 0;
  generation = 0;
  #folder;
  #offsets = new Map();
  /** By step: `{ generation, samples }` of the last generation; samples: a Set, and a digest as soon as the step is an old one. */
  #steps = new Map();
  #oldest = 1;
  #ends = [];
  #workers = new Map();
  #times = [];

  constructor(folder) {
    this.#folder = folder;
  }

  read() {
    for (const name of readdirSync(this.#folder)) {
      const file = path.join(this.#folder, name);
      const offset = this.#offsets.get(name) ?? 0;
      const bytes = readFrom(file, offset);
      const whole = bytes.subarray(0, bytes.lastIndexOf(10) + 1);
      this.#offsets.set(name, offset + whole.length);
      const [host, pid] = name.replace('.jsonl', '').split('-');
      for (const line of jsonLines(whole.toString())) this.#add(line, { host, pid: Number(pid) });
    }
    this.#summarize(this.step - RECENT_STEPS);
  }

  /** The processes of the newest generation. */
  newest() {
    this.read();
    return [...this.#workers.values()].filter(({ generation }) => generation === this.generation);
  }

  /** From the first step to the last. */
  seconds() {
    return (this.#times.at(-1) - this.#times[0]) / 1000;
  }

  result() {
    this.#summarize(this.step);
    const steps = new Map([...this.#steps].map(([step, { samples }]) => [step, samples]));
    return { steps, ends: this.#ends, generations: this.generation };
  }

  #add(line, who) {
    if (line.end) {
      this.#ends.push(line);
      return;
    }
    const { step, generation, indices } = line;
    this.#workers.set(`${who.host} ${who.pid}`, { ...who, generation });
    this.generation = Math.max(this.generation, generation);
    const known = this.#steps.get(step);
    if (known === undefined || generation > known.generation) {
      this.#steps.set(step, { generation, samples: new Set(indices) });
      this.#oldest = Math.min(this.#oldest, step);
    } else if (generation === known.generation) {
      // Whoever had them: a rank without any takes one with weight 0.
      for (const index of indices) known.samples.add(index);
    }
    if (step > this.step) {
      this.step = step;
      this.#times = [this.#times[0] ?? Date.now(), Date.now()];
    }
  }

  /** Half an hour has hundreds of thousands of steps. Kept as they are, their samples would slow down both runs, and the second one more. */
  #summarize(last) {
    for (; this.#oldest <= last; this.#oldest++) {
      const entry = this.#steps.get(this.#oldest);
      if (entry?.samples instanceof Set) entry.samples = digest(entry.samples);
    }
  }
}
