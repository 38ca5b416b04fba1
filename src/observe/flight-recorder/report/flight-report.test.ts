import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { run } from '../../../cli/main.ts';
import type { HorovodContext } from '../../../context/context.ts';
import { allreduce, barrier } from '../../../operations/collectives.ts';
import { runContexts } from '../../../testing/run-contexts.ts';
import { dumpFormat, type FlightDump, writeDump } from '../flight-dump.ts';
import type { CollectiveRecord } from '../flight-recorder.ts';
import { analyse } from './analyse.ts';

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'horovod-report-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function dumpOf(
  rank: number,
  records: readonly CollectiveRecord[],
  changes: Partial<FlightDump> = {},
): FlightDump {
  return {
    format: dumpFormat,
    job: 'abc',
    rank,
    size: 3,
    host: `host${rank}`,
    pid: 800 + rank,
    step: 7,
    atMs: 1_700_000_000_000,
    clockMs: 100_000,
    reason: 'stall',
    transport: 'shm',
    versions: { horovod: '1' },
    processSets: [{ id: 0, ranks: [0, 1, 2] }],
    pending: [],
    others: [],
    collectives: records.length,
    records,
    ...changes,
  };
}

/** '1 grad [3] done' … in order. */
function records(...texts: readonly string[]): CollectiveRecord[] {
  return texts.map((text, i) => {
    const [name = '', shape = '[3]', state = 'done', processSet = '0'] = text.split(' ');
    return {
      sequence: i + 1,
      kind: 'allreduce',
      name,
      processSet: Number(processSet),
      occurrence: 0,
      dtype: 'float32',
      op: 'Sum',
      root: undefined,
      shapes: [JSON.parse(shape) as number[]],
      bytes: 12,
      state: state as CollectiveRecord['state'],
      submittedAtMs: 39_000,
      finishedAtMs: 40_000,
      error: undefined,
      callSite: `train.mjs:${i}`,
    };
  });
}

async function report(...argv: string[]): Promise<{ exitCode: number; out: string; error: string }> {
  let out = '';
  let error = '';
  const exitCode = await run(['flight-report', ...argv], {
    out: (text) => {
      out += text;
    },
    error: (text) => {
      error += text;
    },
  });
  return { exitCode, out, error };
}

describe('the analysis', () => {
  test('finds nothing where the ranks did the same, in any order of names', () => {
    const dumps = [dumpOf(0, records('a', 'b')), dumpOf(1, records('b', 'a')), dumpOf(2, records('a', 'b'))];
    assert.equal(analyse(dumps).kind, 'none');
  });

  test('names the rank whose shape differs, at the first place where one does', () => {
    const dumps = [
      dumpOf(0, records('a', 'b [3] failed', 'c [4] failed')),
      dumpOf(1, records('a', 'b [5] failed', 'c')),
      dumpOf(2, records('a', 'b [3] failed', 'c')),
    ];
    const { kind, name, culprits } = analyse(dumps);
    assert.deepEqual([kind, name, culprits], ['different', 'b', [1]]);
  });

  test('names the rank that never came, though it waits elsewhere', () => {
    const dumps = [
      dumpOf(0, records('a', 'b [3] pending')),
      dumpOf(1, records('a', 'b [3] pending')),
      dumpOf(2, records('a', 'x [3] pending')),
    ];
    const { kind, name, culprits, sides } = analyse(dumps);
    assert.deepEqual([kind, name, culprits], ['absent', 'b', [2]]);
    assert.deepEqual(
      sides.map(({ ranks, what }) => [ranks, what]),
      [
        [[0, 1], 'allreduce float32 [3] Sum'],
        [[2], undefined],
      ],
    );
  });

  test('names the few that called what most have passed by', () => {
    const all = (rank: number) => dumpOf(rank, records('a', 'b [3] pending'), { size: 4 });
    const processSets = [{ id: 0, ranks: [0, 1, 2, 3] }];
    const one = dumpOf(0, records('a', 'loss [3] pending'), { size: 4, processSets });
    const { kind, name, culprits } = analyse(
      [one, all(1), all(2), all(3)].map((dump) => ({ ...dump, processSets })),
    );
    assert.deepEqual([kind, name, culprits], ['absent', 'loss', [0]]);
  });

  test('names the many that call nothing else: they may be stuck', () => {
    const dumps = [
      dumpOf(0, records('a', 'b [3] pending')),
      dumpOf(1, records('a')),
      dumpOf(2, records('a')),
    ];
    assert.deepEqual(analyse(dumps).culprits, [1, 2]);
  });

  test('names nobody where two wait for different things', () => {
    const processSets = [{ id: 0, ranks: [0, 1] }];
    const dumps = [
      dumpOf(0, records('a', 'b [3] pending'), { size: 2, processSets }),
      dumpOf(1, records('a', 'c [3] pending'), { size: 2, processSets }),
    ];
    const { kind, name, culprits } = analyse(dumps);
    assert.deepEqual([kind, name, culprits], ['absent', 'b', []]);
  });

  test('counts the same name step by step', () => {
    const dumps = [0, 1, 2].map((rank) =>
      dumpOf(rank, records('g', 'g', rank === 1 ? 'other [3] pending' : 'g [3] pending')),
    );
    assert.deepEqual(analyse(dumps).culprits, [1]);
  });

  test('compares rings that have gone round from where both have records', () => {
    const long = records(...Array.from({ length: 9 }, () => 'g'), 'end [3] pending');
    const dumps = [
      dumpOf(0, long.slice(4), { collectives: 10 }),
      dumpOf(1, long.slice(6, 9), { collectives: 9 }),
      dumpOf(2, long.slice(5), { collectives: 10 }),
    ];
    const { name, culprits } = analyse(dumps);
    assert.deepEqual([name, culprits], ['end', [1]]);
  });

  test('of rings that have gone round by different lengths, puts the same step side by side', async () => {
    const found = await runContexts(
      3,
      async (context, rank, { sets: [pair] }) => {
        for (let step = 0; step < 12; step++) {
          if (rank < 2) await allreduce(context, new Float32Array(1), { name: 'pair', processSet: pair });
          await allreduce(context, new Float32Array(2), { name: 'a' });
          await allreduce(context, new Float32Array(2), { name: 'b' });
        }
        await assert.rejects(allreduce(context, new Float32Array(rank === 1 ? 3 : 2), { name: 'b' }));
        return dumpOf(rank, context.flightRecord(), {
          processSets: [
            { id: 0, ranks: [0, 1, 2] },
            { id: 1, ranks: [0, 1] },
          ],
        });
      },
      { processSets: [[0, 1]], limits: { flightRecords: 9 } },
    );
    assert.deepEqual(found[2]?.records.at(-1)?.occurrence, 13);
    const { kind, name, culprits } = analyse(found);
    assert.deepEqual([kind, name, culprits], ['different', 'b', [1]]);
  });

  test('without a name, what counts is the number, whatever the kind', () => {
    const kinds = ['allreduce', 'allgather', 'allreduce'];
    const dumps = kinds.map((kind, rank) =>
      dumpOf(
        rank,
        records(`${kind}.noname.7 [3] failed`).map((record) => ({ ...record, kind })),
      ),
    );
    const { kind, culprits } = analyse(dumps);
    assert.deepEqual([kind, culprits], ['different', [1]]);
  });

  test('a mismatch that records do not show is one all the same', () => {
    const failed = records('a', 'scaled [3] failed').map((record) => ({
      ...record,
      error: record.state === 'failed' ? 'ERR_HVD_MISMATCH' : undefined,
    }));
    const { kind, name, culprits } = analyse([0, 1, 2].map((rank) => dumpOf(rank, failed)));
    assert.deepEqual([kind, name, culprits], ['different', 'scaled', []]);
  });

  test('a rank that computes for ever, and so writes no dump, is named by those who wait for it', () => {
    const request = { kind: 'allreduce', name: 'b', processSet: 0, waitedMs: 61_000, missing: [1] };
    const pending = [{ ...request, label: 'allreduce "b"' }];
    const dumps = [0, 2].map((rank) => dumpOf(rank, records('a', 'b [3] pending'), { pending }));
    const { kind, name, culprits } = analyse(dumps);
    assert.deepEqual([kind, name, culprits], ['absent', 'b', [1]]);
  });

  test('nobody is absent from what came before the oldest record it has', () => {
    const dumps = [
      dumpOf(0, records('x [3] failed', 'a', 'b', 'c')),
      dumpOf(1, records('x [3] failed', 'a', 'b', 'c')),
      dumpOf(2, records('x [3] failed', 'a', 'b', 'c').slice(2)),
    ];
    assert.equal(analyse(dumps).kind, 'none');
  });

  test('knows ranks that have counted more, being in more process sets', () => {
    const processSets = [
      { id: 0, ranks: [0, 1, 2] },
      { id: 1, ranks: [0, 1] },
    ];
    const both = records('pair [3] done 1', 'pair [3] done 1', 'a', 'b', 'last [3] pending');
    const dumps = [
      dumpOf(0, both, { processSets }),
      dumpOf(1, both, { processSets }),
      dumpOf(2, records('a', 'b', 'last [3] pending'), { processSets }),
    ];
    assert.equal(analyse(dumps).kind, 'none');
  });

  test('a first dimension that may differ is no mismatch', () => {
    const gathered = (rows: number) =>
      records(`x [${rows},2]`).map((record) => ({ ...record, kind: 'allgather' }));
    assert.equal(
      analyse([dumpOf(0, gathered(1)), dumpOf(1, gathered(5)), dumpOf(2, gathered(2))]).kind,
      'none',
    );
  });

  test('a rank that was lost is the culprit, not who had not come yet', () => {
    const error = { code: 'ERR_HVD_PEER_LOST', message: 'rank 1 was killed by SIGKILL', rank: 1 };
    const dumps = [dumpOf(0, records('a', 'b [3] pending'), { error }), dumpOf(2, records('a'), { error })];
    const { kind, culprits } = analyse(dumps);
    assert.deepEqual([kind, culprits], ['lost', [1]]);
  });

  test('of real records: an if around a collective, a shape of its own', async () => {
    const dumpsOfRun = (body: (context: HorovodContext, rank: number) => Promise<unknown>) =>
      runContexts(3, async (context, rank) => {
        await barrier(context);
        // Whatever waits, waits for good.
        void body(context, rank).catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, 20));
        return dumpOf(rank, context.flightRecord());
      });
    const absent = await dumpsOfRun(async (context, rank) => {
      if (rank !== 1) await allreduce(context, new Float32Array(2), { name: 'loss' });
    });
    const found = analyse(absent);
    assert.deepEqual([found.kind, found.name, found.culprits], ['absent', 'loss', [1]]);
    const different = await dumpsOfRun((context, rank) =>
      allreduce(context, new Float32Array(rank === 2 ? 3 : 2), { name: 'grad' }),
    );
    const other = analyse(different);
    assert.deepEqual([other.kind, other.name, other.culprits], ['different', 'grad', [2]]);
  });
});

describe('horovod flight-report', () => {
  const write = (...dumps: readonly FlightDump[]) => {
    for (const dump of dumps) writeDump(directory, dump);
  };

  test('says who, what and where, and what is not known', async () => {
    const others = ['rank 2 (host2, pid 802) sleeps'];
    const internal = records('a', 'horovod.process_set.3').map((record, i) =>
      i === 1 ? { ...record, kind: 'processSet' } : record,
    );
    write(
      dumpOf(0, [...internal, ...records('a', 'a', 'b [3] pending').slice(2)], { others }),
      dumpOf(1, internal, { stragglers: 'Stragglers: rank 1.' }),
    );
    const { exitCode, out } = await report(directory);
    assert.equal(exitCode, 0);
    assert.match(out, /^Job abc: 3 ranks, flight records of 2/);
    assert.match(out, /First mismatch: rank 1 did not call "b"\./);
    assert.match(
      out,
      /rank 0: allreduce float32 \[3\] Sum \(number 3\), pending for 61 s, called at train\.mjs:2\./,
    );
    assert.match(
      out,
      /rank 1 did not call it\. Rank 1: finished allreduce float32 \[3\] Sum "a" 60 s ago, train\.mjs:0\./,
    );
    assert.match(out, /^Culprit: rank 1\.$/m);
    assert.match(out, /^1 +host1 +801 +stall +7 +2 +finished allreduce/m);
    assert.match(
      out,
      /No flight record of rank 2\. What the other ranks knew about it:\n {2}rank 2 \(host2, pid 802\) sleeps/,
    );
    assert.match(out, /^Stragglers: rank 1\.$/m);
  });

  test('--json is one object', async () => {
    write(dumpOf(0, records('a')), dumpOf(1, records('a')), dumpOf(2, records('a')));
    const { out } = await report('--json', directory);
    const { job, finding, ranks, ranksWithoutDump } = JSON.parse(out) as Record<string, unknown> & {
      finding: { kind: string };
      ranks: unknown[];
    };
    assert.deepEqual([job, finding.kind, ranks.length, ranksWithoutDump], ['abc', 'none', 3, []]);
  });

  test('takes the newest job, leaves out what it cannot read, and says so', async () => {
    write(dumpOf(0, records('a'), { job: 'old', atMs: 1 }), dumpOf(1, records('a')));
    writeFileSync(join(directory, 'rank-2.json'), '{"format": 1, "rank"');
    writeFileSync(join(directory, 'rank-4.json'), '{"format": 99}');
    writeFileSync(join(directory, 'rank-5.json'), '[]');
    const { exitCode, out } = await report(directory);
    assert.equal(exitCode, 0, out);
    assert.match(
      out,
      /Note: Skipped flight records of another job \(old\)\. This report is about the newest job, abc\./,
    );
    assert.match(out, /Note: Skipped .*rank-2\.json: .*JSON/);
    assert.match(out, /Note: Skipped .*rank-4\.json: it was written by another version of horovod/);
    assert.match(out, /Note: Skipped .*rank-5\.json: it is not a flight record/);
    assert.match(out, /No flight record of ranks 0, 2\./);
  });

  test('of an elastic job is about its last generation, or the one that is asked for', async () => {
    const lost = { code: 'ERR_HVD_PEER_LOST', message: 'rank 2 was killed', rank: 2 };
    write(
      ...[0, 1].map((rank) => dumpOf(rank, records('a'), { generation: 1, error: lost })),
      // Its number is that of the lost rank's successor.
      dumpOf(2, records('a', 'b'), { generation: 2 }),
      ...[0, 1].map((rank) => dumpOf(rank, records('a', 'b [3] pending'), { generation: 3, size: 2 })),
    );
    const last = await report(directory);
    assert.match(last.out, /^Job abc, generation 3: 2 ranks, flight records of 2/);
    assert.match(last.out, /^Note: There are flight records of other generations: --generation 1, 2\.$/m);
    assert.match(last.out, /^No mismatch/m);
    const first = await report('--generation', '1', directory);
    assert.match(first.out, /^Job abc, generation 1: 3 ranks, flight records of 2/);
    assert.match(first.out, /^Culprit: rank 2\. It was lost/m);
    const none = await report('--generation', '7', directory);
    assert.equal(none.exitCode, 1);
    assert.match(none.error, /there is no flight record of generation 7; there are some of 1, 2, 3\./);
    const wrong = await report('--generation', 'last', directory);
    assert.equal(wrong.exitCode, 2);
    assert.match(wrong.error, /--generation is "last"; expected an integer ≥ 1/);
  });

  test('puts the directories of several hosts together', async () => {
    write(dumpOf(0, records('a')));
    const other = mkdtempSync(join(tmpdir(), 'horovod-report-'));
    try {
      writeDump(other, dumpOf(1, records('a [4] failed')));
      assert.match((await report(directory, other)).out, /flight records of 2/);
    } finally {
      rmSync(other, { recursive: true });
    }
  });

  test('rejects a directory without flight records, a missing directory and wrong options', async () => {
    const empty = await report(directory);
    assert.equal(empty.exitCode, 1);
    assert.match(
      empty.error,
      /there is no flight record \(rank-<n>\.json\) in .*\. Ranks write flight records when/,
    );
    const none = await report(join(directory, 'nowhere'));
    assert.equal(none.exitCode, 1);
    assert.match(none.error, /nowhere: there is no such directory/);
    const missing = await report();
    assert.equal(missing.exitCode, 2);
    assert.match(missing.error, /DIRECTORY is missing/);
    assert.equal((await report('--what')).exitCode, 2);
    const help = await report('--help');
    assert.equal(help.exitCode, 0);
    assert.match(help.out, /^Usage: horovod flight-report/);
  });
});
