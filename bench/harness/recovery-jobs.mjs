// The jobs of one round of bench/recovery.mjs. Each starts an elastic job of ranks/elastic-steps.mjs, kills a worker or adds a host when
// all ranks are training, and reads from the workers' event files how long it took; commit: ranks/commit-cost.mjs.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastWords } from './cluster-jobs.mjs';
import { explainFailure, jsonLines, runCommand } from './command.mjs';
import { cleanEnvironment } from './jobs.mjs';

const DEADLINE_MS = 60_000;
const POLL_MS = 10;
/** Steps that every rank has done before something happens to the job. */
const SETTLED_STEPS = 200;

export const TOPICS = {
  'one-host': { hosts: 1, ranks: 3 },
  spare: { hosts: 1, ranks: 3, flags: ['--spares', '1'] },
  hosts: { hosts: 2, ranks: 4 },
  discovery: { hosts: 2, ranks: 2 },
  commit: { hosts: 1 },
};

/** @param setup `{ box, topics, quick, benchFolder, root }` */
export function planRecoveryJobs(setup) {
  return setup.topics.map((topic) => {
    const work = { commit: () => commitCost(setup), discovery: (signal) => addHost(setup, signal) };
    const run = async (signal) => {
      try {
        const figures = await (work[topic] ?? (() => killRank(setup, topic, signal)))(signal);
        const samples = Object.entries(figures).map(([key, value]) => ({
          topic,
          series: 'horovod',
          key,
          value,
        }));
        return { samples };
      } catch (error) {
        return { samples: [], failure: lastWords(error.message) };
      }
    };
    return { name: topic, topic, series: ['horovod'], run };
  });
}

/** kill -9 of the last rank. */
async function killRank(setup, topic, signal) {
  const { hosts, ranks, flags = [] } = TOPICS[topic];
  const places = hosts === 1 ? [] : ['-H', 'host1:2,host2:2'];
  const limits = ['-np', ranks, '--min-np', ranks - 1, '--max-np', ranks].map(String);
  return await withJob(setup, { hosts, flags: [...limits, ...flags, ...places] }, signal, async (job) => {
    const before = await job.until((events) => settled(events, ranks));
    const victim = before.find(({ rank }) => rank === ranks - 1);
    // A spare has to be up before it can be of use.
    if (topic === 'spare') await sleep(3000);
    const killedAt = performance.timeOrigin + performance.now();
    await job.kill(victim);
    // With a spare the job goes on at full size at once.
    const next = await job.until((events) =>
      firstSteps(events, (e) => e.at > killedAt && e.generation > victim.generation),
    );
    const all = await job.until((events) =>
      firstSteps(events, (e) => e.at > killedAt && e.size === ranks && e.generation > victim.generation),
    );
    const survivors = all.filter(({ lastStepAt }) => lastStepAt !== undefined);
    return {
      'every survivor has done a step, ms': latest(next) - killedAt,
      'back at full size, ms': latest(all) - killedAt,
      'pause of survivors to take it in, ms': Math.max(
        ...survivors.map(({ at, lastStepAt }) => at - lastStepAt),
      ),
    };
  });
}

/** A second host appears in the output of the discovery script. */
async function addHost(setup, signal) {
  const flags = ['-np', '1', '--min-np', '1', '--max-np', '2', '--host-discovery-script'];
  const hostsFile = path.join(setup.box.shared, 'hosts.txt');
  const script = path.join(setup.box.shared, 'discover.sh');
  writeFileSync(hostsFile, 'host1:1\n');
  writeFileSync(script, `#!/bin/sh\ncat ${hostsFile}\n`, { mode: 0o755 });
  return await withJob(setup, { hosts: 2, flags: [...flags, script] }, signal, async (job) => {
    await job.until((events) => settled(events, 1));
    const addedAt = performance.timeOrigin + performance.now();
    writeFileSync(hostsFile, 'host1:1\nhost2:1\n');
    const both = await job.until((events) => firstSteps(events, (e) => e.size === 2));
    const survivors = both.filter(({ lastStepAt }) => lastStepAt !== undefined);
    return {
      'host in the list until its rank has done a step, ms': latest(both) - addedAt,
      'pause of survivors to take it in, ms': Math.max(
        ...survivors.map(({ at, lastStepAt }) => at - lastStepAt),
      ),
    };
  });
}

async function commitCost({ root, benchFolder, quick }) {
  const script = path.join(benchFolder, 'ranks', 'commit-cost.mjs');
  const args = ['-np', '2', '--min-np', '1', '--no-prefix-output', script, '--windows', quick ? '20' : '100'];
  const result = await runCommand(process.execPath, [path.join(root, 'bin/horovodrun.js'), ...args], {
    env: cleanEnvironment(),
    deadlineMs: 5 * DEADLINE_MS,
  });
  const failure = explainFailure(result);
  if (failure) throw new Error(failure);
  const figures = jsonLines(result.stdout).find(({ pairedMs }) => pairedMs !== undefined);
  if (figures === undefined) throw new Error('it printed no figures');
  return {
    'step without commits, ms': figures.withoutMs,
    'step with commits, ms': figures.withMs,
    'difference within a pair of windows, ms': figures.pairedMs,
    'processor time of a step without commits, ms': figures.cpuWithoutMs,
    'difference within a pair, processor time, ms': figures.cpuPairedMs,
    'commit alone, ms': figures.commitUs / 1000,
  };
}

/** Runs an elastic job until `use` has seen what it waits for. */
async function withJob(setup, { hosts, flags }, signal, use) {
  const { root, benchFolder, box } = setup;
  const folder =
    hosts === 1
      ? mkdtempSync(path.join(tmpdir(), 'horovod-bench-'))
      : path.join(box.shared, `events-${Date.now()}`);
  mkdirSync(folder, { recursive: true });
  const argv = [
    ...[path.join(root, 'bin', 'horovodrun.js'), ...flags],
    ...[path.join(benchFolder, 'ranks', 'elastic-steps.mjs'), '--events', folder],
  ];
  const job = hosts === 1 ? startHere(argv) : startInBox(box, argv);
  const until = async (find) => {
    const deadline = Date.now() + DEADLINE_MS;
    for (;;) {
      const found = find(readEvents(folder));
      if (found !== undefined) return found;
      if (signal.aborted) throw new Error('interrupted');
      if (job.hasEnded()) throw new Error(`the job has ended: ${lastWords(job.stderr())}`);
      if (Date.now() > deadline)
        throw new Error(`nothing after ${DEADLINE_MS / 1000} s: ${lastWords(job.stderr())}`);
      await sleep(POLL_MS);
    }
  };
  try {
    return await use({ until, kill: job.kill });
  } finally {
    await job.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function startHere(argv) {
  const child = spawn(process.execPath, argv, {
    env: cleanEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  return {
    kill: ({ pid }) => process.kill(pid, 'SIGKILL'),
    stderr: () => stderr,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

function startInBox(box, argv) {
  const started = box.start('host1', [process.execPath, ...argv]);
  return {
    kill: ({ host, pid }) => box.exec(host, ['kill', '-9', String(pid)]),
    stderr: () => started.stderr,
    hasEnded: () => started.child.exitCode !== null || started.child.signalCode !== null,
    stop: async () => {
      started.kill('SIGTERM');
      await started.ended;
    },
  };
}

function readEvents(folder) {
  return readdirSync(folder).flatMap((name) => jsonLines(readFileSync(path.join(folder, name), 'utf8')));
}

/** The newest event of each rank, once all `ranks` of one generation have done enough steps. */
function settled(events, ranks) {
  return firstSteps(events, ({ step, size }) => size === ranks && step >= SETTLED_STEPS);
}

/** The first such event of each rank, of the first generation all of whose ranks have one. */
function firstSteps(events, isMeant) {
  const meant = events.filter(isMeant);
  const generations = [...new Set(meant.map(({ generation }) => generation))].sort((a, b) => a - b);
  for (const each of generations) {
    const group = meant.filter(({ generation }) => generation === each);
    const byRank = new Map(group.reverse().map((event) => [event.rank, event]));
    if (byRank.size === group[0].size) return [...byRank.values()];
  }
  return undefined;
}

const latest = (events) => Math.max(...events.map(({ at }) => at));
