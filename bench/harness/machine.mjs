// What the figures were measured on, and whether anything else was running meanwhile: processor, caches, kernel and
// versions once; load average and the share of processor time that was not ours ("foreign") around every run.
import { readFileSync } from 'node:fs';
import os from 'node:os';

/** Above this the machine is not idle and the figures are marked. */
export const FOREIGN_LIMIT = 0.05;

export function describeMachine() {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    cores: os.availableParallelism(),
    caches: readCaches(),
    memoryGiB: Math.round(os.totalmem() / 2 ** 30),
    virtual: /^flags.*\bhypervisor\b/m.test(read('/proc/cpuinfo')),
    hugePages: /\[(\w+)\]/.exec(read('/sys/kernel/mm/transparent_hugepage/enabled'))?.[1] ?? 'unknown',
    sharedMemoryMiB: sharedMemoryMiB(),
    kernel: `${os.type()} ${os.release()} ${os.machine()}`,
    node: process.version,
  };
}

export function loadAverage() {
  return os.loadavg().map((load) => Number(load.toFixed(2)));
}

/** Starts a watch on the processor time; call the result for the shares since then, of all cores together. */
export function watchProcessor() {
  const before = processorTimes();
  return () => {
    const after = processorTimes();
    const total = after.total - before.total;
    if (total <= 0) return { own: 0, foreign: 0, steal: 0 };
    const own = after.own - before.own;
    const foreign = after.busy - before.busy - own;
    return {
      own: Number((own / total).toFixed(3)),
      foreign: Number(Math.max(0, foreign / total).toFixed(3)),
      steal: Number(((after.steal - before.steal) / total).toFixed(3)),
    };
  };
}

/** A second of doing nothing: whatever the processors do meanwhile is foreign. */
export async function sampleIdleness(signal) {
  const shares = watchProcessor();
  await new Promise((resolve) => {
    const timer = setTimeout(done, 1000);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
  });
  const load = loadAverage();
  const { foreign, steal } = shares();
  const isLoaded = load[0] / describeMachine().cores > FOREIGN_LIMIT;
  return { load, foreign, steal, idle: !isLoaded && foreign <= FOREIGN_LIMIT && steal <= FOREIGN_LIMIT };
}

/**
 * In clock ticks. Own time includes children, but only those that have ended and been waited for: read it between runs.
 * Steal is what the hypervisor gave to other guests.
 */
function processorTimes() {
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] = read(
    '/proc/stat',
  )
    .split('\n', 1)[0]
    .split(/\s+/)
    .slice(1)
    .map(Number);
  const busy = user + nice + system + irq + softirq;
  // The second field is the program's name in parentheses and may hold spaces.
  const fields = read('/proc/self/stat').split(') ')[1]?.split(' ') ?? [];
  const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
  return { busy, steal, own, total: busy + idle + iowait + steal };
}

function readCaches() {
  const caches = [];
  for (let index = 0; index < 8; index++) {
    const folder = `/sys/devices/system/cpu/cpu0/cache/index${index}`;
    const [level, type, size] = ['level', 'type', 'size'].map((name) => read(`${folder}/${name}`).trim());
    if (level === '') break;
    caches.push(`L${level}${type === 'Data' ? 'd' : type === 'Instruction' ? 'i' : ''} ${size}`);
  }
  return caches;
}

function sharedMemoryMiB() {
  const line = read('/proc/mounts')
    .split('\n')
    .find((mount) => mount.split(' ')[1] === '/dev/shm');
  const size = /\bsize=(\d+)k\b/.exec(line ?? '');
  return size ? Math.round(Number(size[1]) / 1024) : undefined;
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Maker and family of a processor, for the name of a page. */
export function processorKind(cpu) {
  const text = cpu.toLowerCase().replace(/\((r|tm)\)/g, '');
  const known = ['amd epyc', 'amd ryzen', 'intel xeon', 'intel core', 'neoverse', 'apple'];
  return (known.find((kind) => text.includes(kind)) ?? text)
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}
