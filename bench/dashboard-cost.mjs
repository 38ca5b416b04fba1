// What the dashboard costs the ranks. One job of two ranks trains all the time; for some seconds a dashboard looks at it once a second and sends
// everything to a browser (a process that reads the stream), then for as long there is none, and so on: what slows the machine down for
// longer than a pair of such windows is in both of them. On a machine that others use, that is too coarse. So it also compares the steps in
// which the dashboard has looked with those right before and after them; the same at moments of windows without a dashboard shows how
// much of that is chance. It also prints how much processor time the dashboard itself takes, and what a look at 2 and at 64 ranks takes.
//
//   node bench/dashboard-cost.mjs [--pairs 15] [--seconds 3]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ControlBlock, controlLayout } from '../dist/control/control-block.js';
import { Dashboard } from '../dist/observe/dashboard/dashboard.js';
import { JobSampler } from '../dist/observe/dashboard/sampler.js';
import { DashboardServer } from '../dist/observe/dashboard/server.js';
import { findBlocks } from '../dist/observe/status/find-jobs.js';
import { lookAt, readBlock } from '../dist/observe/status/job-view.js';
import { encodeRankStatus } from '../dist/observe/status/rank-status.js';

const { values } = parseArgs({
  options: { pairs: { type: 'string', default: '15' }, seconds: { type: 'string', default: '3' } },
});
const [pairs, seconds] = [Number(values.pairs), Number(values.seconds)];
const facts = {
  id: '',
  command: '',
  startedAt: Date.now(),
  hosts: [],
  settings: [],
  versions: [],
  links: [],
};
/** What the process does that stands for a browser. */
const reader = `const [url] = process.argv.slice(1);
  const first = await fetch(url, { redirect: 'manual' });
  const cookie = first.headers.get('set-cookie').split(';')[0];
  const events = await fetch(new URL('./events', url), { headers: { cookie } });
  for await (const piece of events.body);`;

for (const ranks of [2, 64]) console.log(`a look at ${ranks} ranks: ${lookMs(ranks).toFixed(2)} ms`);

const folder = mkdtempSync(path.join(tmpdir(), 'horovod-bench-'));
try {
  await measure();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure() {
  const [stop, times] = ['stop', 'times.json'].map((name) => path.join(folder, name));
  const script = path.join(import.meta.dirname, 'ranks/dashboard-steps.mjs');
  const launcher = path.join(import.meta.dirname, '../bin/horovodrun.js');
  const job = spawn(process.execPath, [launcher, '-np', '2', '--', script, stop, times], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(job, 'exit');
  let onLine = () => {};
  createInterface({ input: job.stdout }).on('line', (line) => onLine(line));
  const sampler = new JobSampler();
  while (sampler.isEmpty) {
    await sleep(200);
    const own = findBlocks('/dev/shm').blocks.find((block) => readBlock(block)?.command.includes(folder));
    if (own !== undefined) sampler.use('here', own);
  }
  // Until the ranks run at full speed.
  await sleep(2000);
  const windows = [];
  for (let pair = 0; pair < pairs; pair++) {
    for (const isOn of pair % 2 === 0 ? [true, false] : [false, true]) {
      const looks = [];
      const dashboard = isOn ? await begin(sampler, looks) : undefined;
      if (dashboard !== undefined) onLine = (line) => dashboard.addLine(line);
      // Opening it is not part of the cost.
      await sleep(500);
      const cpu = process.cpuUsage();
      const from = performance.timeOrigin + performance.now();
      await sleep(1000 * seconds);
      const to = performance.timeOrigin + performance.now();
      const { user, system } = process.cpuUsage(cpu);
      if (!isOn) for (let at = from + 500; at < to; at += 1000) looks.push(at);
      windows.push({ pair, isOn, from, to, looks, cpuMs: (user + system) / 1000 });
      onLine = () => {};
      await dashboard?.end();
    }
  }
  writeFileSync(stop, '');
  await ended;
  sampler.close();
  report(windows, JSON.parse(readFileSync(times, 'utf8')));
}

async function begin(sampler, looks) {
  const look = () => {
    looks.push(performance.timeOrigin + performance.now());
    return sampler.look();
  };
  const dashboard = new Dashboard({ facts, look, ranks: 2 });
  const server = await DashboardServer.listen(dashboard, { port: 0, flag: 'bench' });
  const browser = spawn(process.execPath, ['--input-type=module', '-e', reader, server.url], {
    stdio: 'ignore',
  });
  while (server.browsers === 0) await sleep(20);
  return {
    addLine: (line) => dashboard.logs.add(0, 'stdout', line),
    async end() {
      browser.kill();
      await once(browser, 'exit');
      await server.close();
      dashboard.close();
    },
  };
}

/** At pages that change in between; the first looks, which compile the code, do not count. */
function lookMs(ranks) {
  const block = ControlBlock.create(ranks);
  const dashboard = new Dashboard({ facts, look: () => lookAt(block, 'bench'), ranks, periodMs: 1e9 });
  const looks = [];
  for (let look = 1; look <= 200; look++) {
    for (let rank = 0; rank < ranks; rank++) {
      if (look === 1) block.attach(rank, process.pid);
      const text = encodeRankStatus(pageOf(rank, look), controlLayout.statusBytes);
      block.writeStatus(rank, look, text);
    }
    const began = performance.now();
    dashboard.look();
    looks.push(performance.now() - began);
  }
  dashboard.close();
  block.close();
  return median(looks.slice(50));
}

function pageOf(rank, look) {
  const rates = { stepsPerSecond: 20, samplesPerSecond: 640, bytesPerSecond: 1e6 };
  const counts = { step: 20 * look, samples: 640 * look, collectives: 50 * look, bytes: 1e6 * look };
  const place = { rank, host: 'host1', pid: process.pid, job: '1a2b3c4d', updatedAt: Date.now() };
  const metrics = [
    ['loss', 1 / look],
    ['accuracy', 0.5],
  ];
  return { ...place, ...counts, rates, metrics, rssBytes: 1e8, pending: [], waitMsPerStep: 3 };
}

function report(windows, ends) {
  const steps = windows.map(({ from, to }) => {
    const inside = ends.filter((end) => end >= from && end <= to);
    return (inside.at(-1) - inside[0]) / (inside.length - 1);
  });
  const of = (isOn) => steps.filter((_, index) => windows[index].isOn === isOn);
  const shares = Array.from({ length: pairs }, (_, pair) => {
    const [on, off] = [true, false].map(
      (isOn) => steps[windows.findIndex((one) => one.pair === pair && one.isOn === isOn)],
    );
    return on / off - 1;
  }).sort((a, b) => a - b);
  const cpuOf = (wanted) =>
    median(windows.filter(({ isOn }) => isOn === wanted).map(({ cpuMs }) => cpuMs)) / (1000 * seconds);
  const percent = (share) => `${(100 * share).toFixed(2)} %`;
  console.log(
    `step: ${median(of(false)).toFixed(3)} ms without, ${median(of(true)).toFixed(3)} ms with the dashboard`,
  );
  console.log(
    `cost: ${percent(median(shares))} of a step (median of ${pairs} pairs; half of them from ${percent(at(shares, 0.25))} to ${percent(at(shares, 0.75))})`,
  );
  console.log(`with 95 % confidence: from ${confidence(shares).map(percent).join(' to ')}`);
  for (const [what, isOn] of [
    ['a look', true],
    ['a moment without a look', false],
  ]) {
    const delays = windows.filter((one) => one.isOn === isOn).flatMap((one) => delaysOf(one, ends));
    delays.sort((a, b) => a - b);
    const [low, high] = confidence(delays).map((ms) => ms.toFixed(3));
    console.log(
      `${what} delays the steps around it by ${median(delays).toFixed(3)} ms (median of ${delays.length}; with 95 % confidence from ${low} to ${high} ms)`,
    );
  }
  // What this process does in any case, such as reading the output of the ranks, is not part of it.
  console.log(`processor time of the dashboard: ${percent(cpuOf(true) - cpuOf(false))} of one core`);
}

/** What the step with each look and the next one take longer than the two steps before and the two after them. */
function delaysOf({ from, to, looks }, ends) {
  return looks.flatMap((look) => {
    const step = ends.findIndex((end) => end > look);
    const around = ends.slice(step - 3, step + 4);
    if (around.length < 7 || around[0] < from || around.at(-1) > to) return [];
    const [a, , b, , c, , d] = around;
    return [c - b - (b - a + d - c) / 2];
  });
}

/** Of the median of a sorted list, by the places around its middle: no assumption about how it is distributed. */
function confidence(sorted) {
  const off = Math.max(0, Math.floor((sorted.length - 1.96 * Math.sqrt(sorted.length)) / 2));
  return [sorted[off], sorted[sorted.length - 1 - off]];
}

function median(list) {
  return at(
    [...list].sort((a, b) => a - b),
    0.5,
  );
}

function at(sorted, share) {
  return sorted[Math.round(share * (sorted.length - 1))];
}
