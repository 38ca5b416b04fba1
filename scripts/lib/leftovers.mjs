// Finds what a test run must not leave behind: processes of ranks and launchers, files in /dev/shm, and hosts in a box with their
// network.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { inRepository } from './tools.mjs';

const memoryFileSystem = '/dev/shm';
const boxes = '/var/tmp/ciab';
const networkNamespaces = '/run/netns';

// It may take a moment until a killed process is gone. What still exists after this time was left behind.
const graceMs = 5_000;

/** The processes, files and boxes of Horovod that exist now. */
export function snapshot() {
  return {
    processes: new Map(horovodProcesses().map((each) => [each.pid, each])),
    files: new Set(horovodFiles()),
    boxes: new Set(boxesOfTests()),
  };
}

/** Describes what this run has left behind, after a grace period. Kills processes that certainly belong to this run. */
export async function findLeftovers(runId, before) {
  const deadline = performance.now() + graceMs;
  let left = leftNow(runId, before);
  while (left.length > 0 && performance.now() < deadline) {
    await delay(100);
    left = leftNow(runId, before);
  }
  for (const name of newBoxes(runId, before)) takeDown(name);
  for (const each of horovodProcesses()) {
    if (each.environment.includes(`HVD_TEST_RUN=${runId}`)) kill(each.pid);
  }
  return left;
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // it has exited by itself
  }
}

function leftNow(runId, before) {
  // A developer's machine may run other jobs. A CI machine runs only this one, so all processes count there.
  const isOurs = (each) => each.environment.includes(`HVD_TEST_RUN=${runId}`) || process.env['CI'] === 'true';
  const processes = horovodProcesses()
    .filter((each) => !before.processes.has(each.pid) && isOurs(each))
    .map((each) => `process ${each.pid}: ${each.command}`);
  const files = horovodFiles()
    .filter((name) => !before.files.has(name))
    .map((name) => `${memoryFileSystem}/${name}`);
  const hosts = newBoxes(runId, before).map((name) => `hosts in the box ${name}`);
  return [...processes, ...files, ...hosts];
}

/** New boxes, except those of a living process of another run. The name of a box begins with the pid that created it. */
function newBoxes(runId, before) {
  return boxesOfTests().filter((name) => {
    const maker = environmentOf(/^t(\d+)-/.exec(name)[1]);
    return !before.boxes.has(name) && (maker === undefined || maker.includes(`HVD_TEST_RUN=${runId}`));
  });
}

/** Boxes of startBox(), found by their folder, or by their network if only that is left. */
function boxesOfTests() {
  const names = [
    ...list(boxes),
    ...list(networkNamespaces).map((name) => /^ciab-(.*)-switch$/.exec(name)?.[1] ?? ''),
  ];
  return [...new Set(names)].filter((name) => /^t\d+-\d+$/.test(name));
}

function takeDown(name) {
  const script = inRepository('test/cluster/cluster-in-a-box.sh');
  spawnSync('bash', [script, 'down'], { env: { ...process.env, CIAB: name }, stdio: 'ignore' });
}

function horovodFiles() {
  return list(memoryFileSystem).filter((name) => /^(hvd|horovod)/i.test(name));
}

function horovodProcesses() {
  const found = [];
  for (const name of list('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    const environment = environmentOf(name);
    // We set it for all processes that we start; the launcher sets it for ranks.
    if (!environment?.some((entry) => /^(HOROVOD_|HVD_TEST_RUN=)/.test(entry))) continue;
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      found.push({ pid: Number(name), environment, command });
    } catch {
      // it has exited in the meantime
    }
  }
  return found;
}

/** The variables of a process; undefined if it has ended or belongs to another user. */
function environmentOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    return undefined;
  }
}

function list(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return []; // no such thing here
  }
}
