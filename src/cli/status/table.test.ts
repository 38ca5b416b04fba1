import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusOf, viewOf } from '../../../test/support/status-examples.ts';
import type { JobView, RankView } from '../../observe/status/job-view.ts';
import { renderJobs } from './table.ts';

const now = 1_000_400;

function jobOf(ranks: readonly RankView[], given: Partial<JobView> = {}): JobView {
  return { id: '1a2b3c4d', command: 'node train.js', ranks, hosts: [], ...given };
}

function render(...ranks: RankView[]): string {
  return renderJobs([jobOf(ranks)], now);
}

describe('the table of a job', () => {
  test('has a headline, and a line for each rank', () => {
    const other = statusOf({ rank: 1, host: 'host2', pid: 77, updatedAt: now - 1700, rssBytes: 3 * 2 ** 30 });
    const text = render(viewOf({}), viewOf({ rank: 1, isLocal: false, status: other }));
    assert.equal(
      text,
      [
        'job 1a2b3c4d: 2 ranks on 2 hosts, 1,625 samples/s, train.js',
        'rank  host    pid  step  samples/s  last collective       state  bytes/s   memory  late    age',
        '   0  host1  4121   120        812  allreduce.noname.841          31 MiB  182 MiB        0.4 s',
        '   1  host2    77   120        812  allreduce.noname.841          31 MiB    3 GiB        1.7 s',
        '',
      ].join('\n'),
    );
  });

  test('shows which rank waits for which and how long, and which is late', () => {
    const pending = [{ label: 'allreduce "dense/kernel"', waitedMs: 3000, missing: [1] }];
    const text = render(
      viewOf({ status: statusOf({ pending }) }),
      viewOf({ rank: 1, status: statusOf({ rank: 1, updatedAt: now - 3400 }) }),
    );
    assert.equal(
      text,
      [
        'job 1a2b3c4d: 2 ranks on 1 host, 812 samples/s, train.js',
        'rank  host    pid  step  samples/s  last collective       state                                               bytes/s   memory   late    age',
        '   0  host1  4121   120        812  allreduce.noname.841  waiting 3.4 s for rank 1: allreduce "dense/kernel"   31 MiB  182 MiB         0.4 s',
        '   1  host1  4121   120             allreduce.noname.841  computing for 3.4 s                                          182 MiB  3.0 s  3.4 s',
        '',
      ].join('\n'),
    );
  });

  test('shows how busy ranks and hosts are, a line for each GPU, and that memory runs low', () => {
    const gib = 2 ** 30;
    const memory = { totalBytes: 16 * gib, availableBytes: 4 * gib, limit: 'machine' } as const;
    const gpu = (index: number) => ({
      index,
      name: 'A100',
      busyShare: 0.87,
      usedBytes: gib,
      totalBytes: 40 * gib,
    });
    const text = renderJobs(
      [
        jobOf([viewOf({ status: statusOf({ busyCores: 1.42 }) })], {
          hosts: [
            {
              host: 'host1',
              takenAt: now,
              gpus: [gpu(0), gpu(1)],
              memory,
              processors: { cores: 2, busyCores: 1.5 },
            },
            {
              host: 'host2',
              takenAt: now,
              gpus: [],
              memory: { totalBytes: gib, availableBytes: 2 ** 20, limit: 'cgroup' },
              processors: { cores: 1 },
              warning: 'only 1 MiB is left',
            },
            { host: 'host3', takenAt: now - 60_000, gpus: [] },
          ],
        }),
      ],
      now,
    );
    assert.equal(
      text,
      [
        'job 1a2b3c4d: 1 rank on 1 host, 812 samples/s, train.js',
        'rank  host    pid  step  samples/s  last collective       state  bytes/s    cpu   memory  late    age',
        '   0  host1  4121   120        812  allreduce.noname.841          31 MiB  142 %  182 MiB        0.4 s',
        'host   cpu               memory                       gpu      gpu busy  gpu memory',
        'host1  150 % of 2 cores  12 GiB of 16 GiB             0: A100      87 %  1 GiB of 40 GiB',
        '                                                      1: A100      87 %  1 GiB of 40 GiB',
        'host2  1 core            1,023 MiB of 1 GiB (cgroup)',
        'memory of host2: only 1 MiB is left',
        '',
      ].join('\n'),
    );
  });

  test('shows the metrics of the first rank that has some, without control characters', () => {
    const metrics = [
      ['loss', 0.231_416],
      ['val\u001b[2J', Number.NaN],
    ] as const;
    const text = render(viewOf({}), viewOf({ rank: 1, status: statusOf({ rank: 1, metrics }) }));
    assert.match(text, /\nmetrics of rank 1: loss 0\.2314, val\S* NaN\n$/);
    assert.ok(!text.includes('\u001b'));
  });

  test('shows a rank that sleeps in a timer and still writes its page', () => {
    const asleep = (ms: number) => render(viewOf({ status: statusOf({ idleSince: now - ms }) }));
    assert.match(asleep(25_000), / idle in other code for 25 s /);
    assert.doesNotMatch(asleep(900), /idle/);
  });

  test('does not show a wait of a few milliseconds', () => {
    const pending = [{ label: 'allreduce "x"', waitedMs: 5, missing: [1] }];
    const text = renderJobs([jobOf([viewOf({ status: statusOf({ pending }) })])], 1_000_050);
    assert.doesNotMatch(text, /waiting/);
  });

  test('names the rank the others wait for in each step', () => {
    const waits = [18.4, 0.3, 18.6].map((waitMsPerStep, rank) =>
      viewOf({ rank, status: statusOf({ rank, waitMsPerStep }) }),
    );
    const rows = render(...waits)
      .split('\n')
      .slice(2);
    assert.deepEqual(
      rows.map((row) => /(\S+) ms\/step/.exec(row)?.[1]),
      [undefined, '18.3', undefined, undefined],
    );
  });

  test('shows ranks that have ended, are not connected, are stopped or silent', () => {
    const old = statusOf({ updatedAt: now - 700_000 });
    const states = [
      viewOf({ presence: 'left' }),
      viewOf({ presence: 'lost', end: 'was killed by SIGKILL' }),
      viewOf({ presence: 'starting', status: undefined, isLocal: false }),
      viewOf({ presence: 'here', status: undefined }),
      viewOf({ activity: 'stopped', status: old }),
      viewOf({ activity: 'idle', status: old }),
      viewOf({ isLocal: false, activity: 'unknown', status: old }),
    ].map((view, rank) => ({ ...view, rank }));
    const text = render(...states);
    const expected = [
      'shut down',
      'was killed by SIGKILL',
      'not connected yet',
      'starting',
      'stopped (SIGSTOP or a debugger)',
      'idle in other code for 12 min',
      'no update',
    ];
    const rows = text.split('\n').slice(2);
    for (const [place, state] of expected.entries())
      assert.ok(rows[place]?.includes(`  ${state}  `) || rows[place]?.endsWith(state), rows[place]);
    assert.match(text, /12 min/);
  });

  test('shows why the job failed', () => {
    const text = renderJobs([jobOf([viewOf({})], { failure: 'rank 1 (pid 7) was killed by SIGKILL' })], now);
    assert.match(text, /^failed: rank 1 \(pid 7\) was killed by SIGKILL$/m);
  });

  test('prints nothing that moves a cursor, and cuts what is long', () => {
    const evil = '\x1b[2Jname\r\n\u202e'.repeat(40);
    const last = { sequence: 1, kind: 'allreduce', name: evil, state: 'done', bytes: 1, atMs: 1 } as const;
    const text = renderJobs(
      [
        jobOf([viewOf({ status: statusOf({ host: evil, last }) })], {
          command: evil,
          id: evil,
          failure: evil,
        }),
      ],
      now,
    );
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be there
    assert.doesNotMatch(text, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
    assert.equal(text.split('\n').length, 5);
    assert.ok(text.split('\n').every((line) => line.length < 1000));
  });

  test('shows the script, without Node and its options', () => {
    for (const [command, expected] of [
      [
        '/usr/bin/node --enable-source-maps --import file:///a/register.js ./train.ts --epochs 3',
        'train.ts --epochs 3',
      ],
      ['node train.js', 'train.js'],
      ['/usr/bin/node -e while(1);', '/usr/bin/node -e while(1);'],
      ['node', 'node'],
      ['python train.py', 'python train.py'],
    ] as const) {
      const [headline] = renderJobs([jobOf([viewOf({})], { command })], now).split('\n');
      assert.equal(headline, `job 1a2b3c4d: 1 rank on 1 host, 812 samples/s, ${expected}`);
    }
  });

  test('of an elastic job shows its generation, its standbys and its last resets', () => {
    const news = {
      generation: 3,
      resets: 7,
      standbys: 1,
      pid: 1,
      lastResets: [
        {
          generation: 2,
          at: now - 65_000,
          what: 'rank 1 on host1 was killed by SIGKILL',
          size: 1,
          tookMs: 140,
          repeatedSteps: 2,
        },
        {
          generation: 3,
          at: now - 2000,
          what: 'rank 1 on host2 has joined',
          size: 2,
          tookMs: 90,
          repeatedSteps: 0,
        },
      ],
    };
    const lines = renderJobs(
      [jobOf([viewOf({})], { generation: 3, news, failure: 'of generation 2' })],
      now,
    ).split('\n');
    assert.equal(
      lines[0],
      'job 1a2b3c4d: 1 rank on 1 host, generation 3, 7 resets, 1 worker standing by, 812 samples/s, train.js',
    );
    assert.deepEqual(lines.slice(3), [
      'last resets:',
      '  65 s ago: rank 1 on host1 was killed by SIGKILL; 1 rank, 140 ms, 2 steps repeated (generation 2)',
      '  2.0 s ago: rank 1 on host2 has joined; 2 ranks, 90 ms (generation 3)',
      '',
    ]);
  });

  test('shows how long training waits for data, and after ten seconds of that why', () => {
    const advice = 'map(augment) is the busiest stage (97 %). Raise HOROVOD_DATA_THREADS (1).';
    const starved = (rank: number, share: number, starvedMs: number) =>
      viewOf({ rank, status: statusOf({ rank, data: { share, starvedMs, advice } }) });
    const calm = viewOf({ status: statusOf({ data: { share: 0.031 } }) });
    const lines = render(calm, starved(1, 0.34, 9000), viewOf({ rank: 2 })).split('\n');
    assert.match(lines[1] ?? '', / late {2}data {4}age$/);
    assert.deepEqual(
      lines.slice(2).map((line) => /(\d+ %)? +0\.4 s$/.exec(line)?.[1]),
      ['3 %', '34 %', undefined, undefined],
    );
    assert.equal(lines.length, 6, 'no note yet');
    assert.equal(
      render(calm, starved(1, 0.34, 25_000))
        .split('\n')
        .at(-2),
      `data: rank 1 has been waiting for data for 25 s, 34 % of the time: ${advice}`,
    );
    assert.equal(
      render(starved(0, 0.1, 25_000), starved(1, 0.34, 12_000))
        .split('\n')
        .at(-2),
      `data: ranks 0, 1 have been waiting for data for 12 s, rank 1 34 % of the time: ${advice}`,
    );
  });

  test('of several jobs are several tables', () => {
    const text = renderJobs([jobOf([viewOf({})]), jobOf([viewOf({})], { id: 'ffff' })], now);
    assert.deepEqual(text.match(/^job \w+/gm), ['job 1a2b3c4d', 'job ffff']);
  });
});
