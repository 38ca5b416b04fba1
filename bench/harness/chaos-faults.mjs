// The faults of bench/chaos.mjs: a seeded order of kinds, what each does to a running job, and what it has cost.
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** How many of each there are in a mix of 30; shorter runs have the same shares, and at least one of each. */
export const MIX = { kill: 19, stop: 4, cut: 1, remove: 3, 'during a reset': 3 };
const CUT_MS = 8000;
const REMOVED_MS = 4000;
/** Less than this before and after a fault says too little about the speed without it. */
const CALM_MS = 1000;
/** Between the two faults of `during a reset`. */
const DURING_MS = 60;

/** @returns kinds in the order in which they happen. */
export function planFaults(count, seed) {
  const kinds = Object.entries(MIX).flatMap(([kind, share]) =>
    Array.from({ length: Math.max(1, Math.round((share * count) / 30)) }, () => kind),
  );
  const random = generator(seed);
  while (kinds.length > count) kinds.splice(kinds.indexOf('kill'), 1);
  while (kinds.length < count) kinds.push('kill');
  return shuffle(kinds, random);
}

/** @param job `{ box, workers(), hostsFile, random }`; `workers()`: `{ host, pid }` of those that train now. */
export async function inject(kind, job) {
  const { box, random } = job;
  const signal = async (name) => {
    const [worker] = shuffle(job.workers(), random);
    await signalOne(box, worker, name);
    return `SIG${name} to ${nameOf(worker)}`;
  };
  switch (kind) {
    case 'kill':
      return await signal('KILL');
    case 'stop':
      return await signal('STOP');
    case 'during a reset': {
      const [one, other] = shuffle(job.workers(), random);
      await signalOne(box, one, 'KILL');
      await sleep(DURING_MS);
      await signalOne(box, other, 'KILL');
      return `SIGKILL to ${nameOf(one)}, ${DURING_MS} ms later to ${nameOf(other)}`;
    }
    case 'cut':
      await box.cut('host2');
      await sleep(CUT_MS);
      await box.heal('host2');
      return `host2 cut off for ${CUT_MS / 1000} s`;
    case 'remove':
      writeFileSync(job.hostsFile, 'host1:2\n');
      await sleep(REMOVED_MS);
      writeFileSync(job.hostsFile, 'host1:2\nhost2:2\n');
      return `host2 not in the list for ${REMOVED_MS / 1000} s`;
    default:
      throw new Error(`no such fault: ${kind}`);
  }
}

/**
 * What each fault has cost, in seconds: the time from one calm to the next, less what its steps would have taken at the speed of both.
 * @param calms `{ from, to }`, each `{ ms, step }`: one before each fault, and one after the last
 * @returns undefined for a fault with too little calm around it
 */
export function costsOf(calms) {
  return calms.slice(1).map((after, place) => {
    const before = calms[place];
    const both = [before, after];
    const calmMs = both.reduce((sum, { from, to }) => sum + to.ms - from.ms, 0);
    const calmSteps = both.reduce((sum, { from, to }) => sum + to.step - from.step, 0);
    if (calmMs < CALM_MS || calmSteps === 0) return undefined;
    const steps = after.from.step - before.to.step;
    return (after.from.ms - before.to.ms - (steps * calmMs) / calmSteps) / 1000;
  });
}

async function signalOne(box, { host, pid }, name) {
  await box.exec(host, ['kill', `-${name}`, String(pid)]);
}

const nameOf = ({ host, pid }) => `pid ${pid} on ${host}`;

/** Numbers in [0, 1), the same for the same seed. */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffle(list, random) {
  for (let i = list.length - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [list[i], list[other]] = [list[other], list[i]];
  }
  return list;
}
