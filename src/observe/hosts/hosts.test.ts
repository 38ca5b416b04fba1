// Processors, memory and GPUs of a host, read from files and a nvidia-smi of these tests.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { ControlBlock, controlLayout } from '../../control/control-block.ts';
import { GpuMeter, parseGpus } from './gpu-use.ts';
import { HostReporter } from './host-reporter.ts';
import { HostSampler } from './host-sampler.ts';
import { decodeHostUse, encodeHostUse, type HostUse } from './host-use.ts';
import { LowMemory, lowMemoryText } from './low-memory.ts';
import { readMemory } from './memory-use.ts';
import { ProcessorMeter } from './processor-use.ts';

const mib = 2 ** 20;
const gib = 2 ** 30;

class FakeHost {
  readonly proc: string;
  readonly cgroup: string;
  readonly folder: string;

  constructor(t: TestContext) {
    this.folder = mkdtempSync(join(tmpdir(), 'horovod-hosts-'));
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
    this.proc = join(this.folder, 'proc');
    this.cgroup = join(this.folder, 'cgroup');
  }

  write(path: string, text: string | number): this {
    const file = join(this.folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${text}\n`);
    return this;
  }

  /** A machine of 16 GiB. */
  machine(availableBytes: number): this {
    const kilobytes = (bytes: number) => `${bytes / 1024} kB`;
    return this.write(
      'proc/meminfo',
      `MemTotal:       ${kilobytes(16 * gib)}\nMemFree:  12 kB\nMemAvailable:   ${kilobytes(availableBytes)}`,
    );
  }

  rank(pid: number, rssBytes: number, cgroup = '0::/'): this {
    this.write(`proc/${pid}/cgroup`, cgroup);
    return this.write(`proc/${pid}/status`, `Name:\tnode\nVmPeak:\t 99 kB\nVmRSS:\t  ${rssBytes / 1024} kB`);
  }

  /** Ticks of all processors together. */
  ticks(busy: number, idle: number): this {
    return this.write('proc/stat', `cpu  ${busy} 0 0 ${idle} 0 0 0 0 5 5\ncpu0 1 2\ncpu1 1 2\nintr 3`);
  }

  nvidiaSmi(script: string): string {
    const path = join(this.folder, 'nvidia-smi');
    writeFileSync(path, `#!/bin/sh\necho x >> ${join(this.folder, 'calls')}\n${script}\n`);
    chmodSync(path, 0o755);
    return path;
  }

  get calls(): number {
    return readFileSync(join(this.folder, 'calls'), 'utf8').split('\n').length - 1;
  }
}

describe('memory of a host', () => {
  test('is that of the machine where no cgroup has a limit', (t) => {
    const host = new FakeHost(t).machine(3 * gib).rank(7, gib, '0::/user.slice/a');
    host.write('cgroup/user.slice/a/memory.max', 'max').write('cgroup/user.slice/a/memory.current', 5);
    assert.deepEqual(readMemory(host, 7), {
      totalBytes: 16 * gib,
      availableBytes: 3 * gib,
      limit: 'machine',
    });
  });

  test('is what the tightest of the cgroups around a rank allows; pages of files that nobody uses count as free', (t) => {
    const host = new FakeHost(t).machine(10 * gib).rank(7, gib, '0::/pod/container');
    host.write('cgroup/pod/memory.max', 2 * gib).write('cgroup/pod/memory.current', 1.5 * gib);
    host.write('cgroup/pod/memory.stat', `anon 5\ninactive_file ${0.25 * gib}\nactive_file 9`);
    host.write('cgroup/pod/container/memory.max', 3 * gib).write('cgroup/pod/container/memory.current', gib);
    assert.deepEqual(readMemory(host, 7), {
      totalBytes: 2 * gib,
      availableBytes: 0.75 * gib,
      limit: 'cgroup',
    });
  });

  test('is that of version 1 where its controller is; in a container its path is not the mount', (t) => {
    const host = new FakeHost(t).machine(10 * gib).rank(7, gib, '9:memory:/docker/1234\n0::/docker/1234');
    const files = 'cgroup/memory/memory';
    host.write(`${files}.limit_in_bytes`, 4 * gib).write(`${files}.usage_in_bytes`, 3 * gib);
    host.write(`${files}.stat`, `cache 1\ntotal_inactive_file ${gib}`);
    assert.deepEqual(readMemory(host, 7), {
      totalBytes: 4 * gib,
      availableBytes: 2 * gib,
      limit: 'cgroup',
    });
  });

  test('is that of the machine where a limit is larger than it, or no file can be read', (t) => {
    const host = new FakeHost(t).machine(gib).rank(7, gib, '0::/../..');
    host.write('cgroup/memory.max', 64 * gib).write('cgroup/memory.current', 63.9 * gib);
    assert.equal(readMemory(host, 7)?.availableBytes, gib);
    assert.equal(readMemory(host, 8)?.limit, 'machine', 'this process has just ended');
    assert.equal(readMemory({ ...host, proc: '/nowhere' }, 7), undefined);
  });

  test('is low below a tenth or 2 GiB, and is said once until there is clearly more', () => {
    const low = new LowMemory();
    const looks = [500, 409, 380, 420, 600, 640, 400].map((mebibytes) =>
      low.look({ totalBytes: 4 * gib, availableBytes: mebibytes * mib, limit: 'machine' }),
    );
    assert.deepEqual(looks, ['fine', 'began', 'low', 'low', 'low', 'fine', 'began']);
    const large = new LowMemory();
    const look = (availableBytes: number) =>
      large.look({ totalBytes: 512 * gib, availableBytes, limit: 'machine' });
    assert.deepEqual([look(3 * gib), look(1.9 * gib)], ['fine', 'began']);
  });

  test('the warning has the figures, the rank that uses most, and what to do', () => {
    const ranks = [
      { rank: 2, pid: 40, rssBytes: gib },
      { rank: 3, pid: 41, rssBytes: 1.9 * gib },
    ];
    const memory = { totalBytes: 4 * gib, availableBytes: 300 * mib, limit: 'cgroup' } as const;
    assert.equal(
      lowMemoryText(memory, ranks),
      'only 300 MiB of the 4 GiB of memory that its cgroup (container) allows is left. Rank 3 (pid 41) uses most, 1.9 GiB; the 2 ranks here ' +
        'use 2.9 GiB together. When nothing is left, the kernel kills a process, and the job fails. Use smaller batches or shuffle buffers, or ' +
        'start fewer ranks on this host, or raise the limit (on Spark: spark.executor.memoryOverhead).',
    );
    const machine = { totalBytes: 64 * gib, availableBytes: gib, limit: 'machine' } as const;
    const [one] = ranks;
    assert.match(
      lowMemoryText(machine, one === undefined ? [] : [one]),
      /^only 1 GiB of the 64 GiB of memory is left\. Rank 2 \(pid 40\) uses most, 1 GiB\. Most of it is used by other programs\. .* on this host\.$/,
    );
  });
});

describe('processors of a host', () => {
  test('are busy by the share of their time between two looks', (t) => {
    const host = new FakeHost(t).ticks(1000, 9000);
    const clock = { nowMs: 0 };
    const meter = new ProcessorMeter(host, () => clock.nowMs);
    assert.deepEqual(meter.look('self'), { cores: 2, busyCores: undefined });
    clock.nowMs = 2000;
    host.ticks(1300, 9100);
    assert.deepEqual(meter.look('self'), { cores: 2, busyCores: 1.5 });
    clock.nowMs = 2010;
    assert.deepEqual(meter.look('self'), { cores: 2, busyCores: 1.5 }, 'too soon for another figure');
  });

  test('of a cgroup with a quota are counted by that', (t) => {
    const host = new FakeHost(t).ticks(1000, 9000).rank(7, gib, '0::/pod/a');
    host.write('cgroup/pod/cpu.max', '50000 100000').write('cgroup/pod/cpu.stat', 'usage_usec 1000000');
    host.write('cgroup/pod/a/cpu.max', 'max 100000');
    const clock = { nowMs: 0 };
    const meter = new ProcessorMeter(host, () => clock.nowMs);
    assert.equal(meter.look(7)?.cores, 0.5);
    clock.nowMs = 2000;
    host.write('cgroup/pod/cpu.stat', 'usage_usec 1800000\nuser_usec 5');
    assert.deepEqual(meter.look(7), { cores: 0.5, busyCores: 0.4 });
    const old = new FakeHost(t).ticks(1, 1).rank(8, gib, '4:cpu,cpuacct:/');
    old.write('cgroup/cpu/cpu.cfs_quota_us', 150_000).write('cgroup/cpu/cpu.cfs_period_us', 100_000);
    old.write('cgroup/cpu/cpuacct.usage', 7e9);
    assert.equal(new ProcessorMeter(old).look(8)?.cores, 1.5);
    assert.equal(new ProcessorMeter({ ...old, proc: '/nowhere' }).look(8), undefined);
  });
});

describe('GPUs of a host', () => {
  test('are what nvidia-smi says of each; what a GPU does not tell is left out', () => {
    const text = '0, NVIDIA A100-SXM4-40GB, 87, 12288, 40960\n1, Tesla, odd name, [N/A], [N/A], 16384\n';
    assert.deepEqual(parseGpus(text), [
      {
        index: 0,
        name: 'NVIDIA A100-SXM4-40GB',
        busyShare: 0.87,
        usedBytes: 12 * gib,
        totalBytes: 40 * gib,
      },
      { index: 1, name: 'Tesla, odd name', totalBytes: 16 * gib },
    ]);
    assert.equal(parseGpus('No devices were found\n'), undefined);
  });

  test('are asked for again only after a rest that depends on how long the answer took', async (t) => {
    const host = new FakeHost(t);
    const command = host.nvidiaSmi('echo 0, Fake GPU, 50, 1, 2');
    const meter = new GpuMeter({ command, restFactor: 1e6 });
    const [first, second] = await Promise.all([meter.look(), meter.look()]);
    assert.deepEqual([first[0]?.busyShare, second.length, host.calls], [0.5, 0, 1]);
    assert.equal((await meter.look())[0]?.name, 'Fake GPU');
    assert.equal(host.calls, 1);
  });

  test('are not asked for any more where there is no nvidia-smi, or it fails again and again', async (t) => {
    const host = new FakeHost(t);
    const missing = new GpuMeter({ command: join(host.folder, 'missing') });
    assert.deepEqual(await missing.look(), []);
    const failing = new GpuMeter({ command: host.nvidiaSmi('exit 9'), restFactor: 0 });
    for (let look = 0; look < 8; look++) assert.deepEqual(await failing.look(), []);
    assert.equal(host.calls, 3);
  });

  test('are given up for this time when nvidia-smi hangs', async (t) => {
    const host = new FakeHost(t);
    const meter = new GpuMeter({ command: host.nvidiaSmi('exec sleep 60'), timeoutMs: 50 });
    assert.deepEqual(await meter.look(), []);
    meter.close();
    assert.deepEqual(await meter.look(), []);
  });
});

describe('the page of a host', () => {
  const use: HostUse = {
    host: 'host1',
    takenAt: 1000,
    processors: { cores: 2, busyCores: 1.5 },
    memory: { totalBytes: 16 * gib, availableBytes: gib, limit: 'machine' },
    gpus: [{ index: 0, name: 'A', busyShare: 0.5, usedBytes: 1, totalBytes: 2 }],
    warning: 'only 1 GiB',
  };

  test('comes back as it was; GPUs that do not fit are left out, and damaged fields', () => {
    const decode = (text: Buffer | string) => decodeHostUse(String(text));
    assert.deepEqual(decode(encodeHostUse(use, 4080)), use);
    const gpus = Array.from({ length: 64 }, (_, index) => ({ index, name: 'x'.repeat(80) }));
    const text = encodeHostUse({ ...use, gpus }, controlLayout.statusBytes);
    assert.ok(text.length <= controlLayout.statusBytes && (decode(text)?.gpus.length ?? 0) > 20);
    const damaged = {
      ...use,
      processors: 3,
      memory: { totalBytes: -1 },
      gpus: [7, { index: 1, name: 'b', busyShare: 9 }],
    };
    assert.deepEqual(decode(JSON.stringify(damaged)), {
      host: 'host1',
      takenAt: 1000,
      gpus: [{ index: 1, name: 'b' }],
      warning: 'only 1 GiB',
    });
    for (const wrong of ['', '[]', '{"host":7}']) assert.equal(decode(wrong), undefined);
  });

  function world(t: TestContext) {
    const host = new FakeHost(t)
      .machine(gib)
      .ticks(10, 10)
      .rank(41, 3 * gib)
      .rank(40, gib);
    const block = ControlBlock.create(4);
    t.after(() => block.close());
    const ranks = [
      { rank: 2, pid: 41 },
      { rank: 1, pid: 40 },
    ];
    const read = () => decodeHostUse(block.readHost(1)?.text ?? '');
    return { host, block, ranks, read };
  }

  test('is that of its first rank, with the warning, which is said once', async (t) => {
    const { host, block, ranks, read } = world(t);
    const said: string[] = [];
    const onLowMemory = (text: string) => void said.push(text);
    const gpus = { command: host.nvidiaSmi('echo 0, Fake GPU, 50, 1, 2') };
    const reporter = new HostReporter({ host: 'a', places: host, gpus, onLowMemory, periodMs: 60_000 });
    t.after(() => reporter.close());
    await reporter.report();
    assert.equal(read(), undefined, 'there is no block yet');
    reporter.use(block, () => ranks);
    while (read() === undefined) await new Promise(setImmediate);
    await reporter.report();
    assert.deepEqual(
      [read()?.host, read()?.memory?.availableBytes, read()?.gpus[0]?.name],
      ['a', gib, 'Fake GPU'],
    );
    assert.match(
      String(said),
      /^only 1 GiB of the 16 GiB .* Rank 2 \(pid 41\) uses most, 3 GiB; the 2 ranks/,
    );
    assert.equal(read()?.warning, said[0]);
    assert.equal(said.length, 1);
  });

  test('is left to the process that writes it, as long as there is one', async (t) => {
    const { host, block, ranks, read } = world(t);
    const common = { places: host, gpus: 'none', periodMs: 60_000 } as const;
    const substitute = new HostReporter({ ...common, host: 'substitute', isSubstitute: true });
    t.after(() => substitute.close());
    substitute.use(block, () => ranks);
    await substitute.report();
    assert.equal(read(), undefined, 'the launcher may be about to write');
    const launcher = { host: 'launcher', takenAt: Date.now(), gpus: [] };
    block.writeHost(1, 9, encodeHostUse(launcher, 4080));
    t.mock.method(performance, 'now', () => 1e9);
    await substitute.report();
    assert.equal(read()?.host, 'launcher');
    block.writeHost(1, 10, encodeHostUse({ ...launcher, takenAt: Date.now() - 60_000 }, 4080));
    await substitute.report();
    assert.equal(read()?.host, 'substitute');
    await substitute.report();
  });

  test('of a host that cannot be read has only its name', (t) => {
    const { host } = world(t);
    const sampler = new HostSampler({ host: 'a', places: { ...host, proc: '/nowhere' }, gpus: 'none' });
    const { takenAt, ...rest } = sampler.lookAtFiles([{ rank: 0, pid: 1 }]);
    assert.ok(takenAt > 0);
    assert.deepEqual(rest, { host: 'a', gpus: [] });
  });
});
