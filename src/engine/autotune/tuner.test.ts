import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { type Autotune, attachAutotune, exchangeSettings } from '../../context/autotune.ts';
import type { HorovodContext } from '../../context/context.ts';
import { allreduce, join as joinRanks } from '../../operations/collectives.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import { runContexts } from '../../testing/run-contexts.ts';
import { misfit, readResult, type SavedResult, writeResult } from './files.ts';
import { jobTunables } from './job-tunables.ts';
import { SettledResults } from './settled-results.ts';
import { type Decider, type Decision, Tuner } from './tuner.ts';
import { jobShape, savedValues } from './word.ts';

/** Decides on one value of the list after the other. */
function scripted(values: readonly number[], isOver = false): Decider & { agreedOn: Decision[] } {
  const rest = [...values];
  const agreedOn: Decision[] = [];
  return {
    agreedOn,
    decide(stepMs) {
      assert.ok(stepMs.length > 0 && stepMs.every((ms) => ms >= 0));
      const value = rest.shift() ?? 7;
      return { values: { fusionThresholdBytes: value }, isOver: isOver && rest.length === 0 };
    },
    agreed: (decision) => void agreedOn.push(decision),
  };
}

function makeTuner(context: HorovodContext, decider: Decider | undefined, stepsPerSample = 3) {
  const warnings: string[] = [];
  const tuner = new Tuner(
    {
      rank: context.world.rank,
      isIdle: () => context.isIdle,
      exchange: (key, text) => exchangeSettings(context, key, text),
      apply: (values) => void context.tuned.apply(values),
      nowMs: () => 0,
      warn: (text) => void warnings.push(text),
    },
    decider,
    stepsPerSample,
  );
  context.tuned.onGivenUp = () => tuner.onGivenUp();
  context.steps.subscribe(() => tuner.onStep({ atMs: 0 }));
  return { tuner, warnings };
}

/** A step with several collectives of one tick, so that the fusion threshold matters to how they run. */
async function train(context: HorovodContext): Promise<void> {
  const { rank, size } = context.world;
  const sums = await Promise.all(
    [3, 40, 5].map((length) => allreduce(context, new Float32Array(length).fill(rank + 1), { op: Sum })),
  );
  for (const sum of sums) assert.ok(sum.every((value) => value === (size * (size + 1)) / 2));
}

describe('ranks that tune', () => {
  test('switch all at the same step', async () => {
    const traces = await runContexts(3, async (context, rank) => {
      const { tuner } = makeTuner(context, rank === 0 ? scripted([100, 0, 64, 1 << 20], true) : undefined);
      const trace: string[] = [];
      for (let step = 1; step <= 24; step++) {
        await train(context);
        context.steps.mark();
        await tuner.settled();
        trace.push(`${step}: ${context.tuned.fusionThresholdBytes}`);
      }
      assert.equal(tuner.isOver, true);
      assert.equal(context.tuned.hasBatches, true);
      return trace;
    });
    const [first] = traces as [string[]];
    for (const trace of traces) assert.deepEqual(trace, first);
    assert.equal(first[3], '4: 100');
    assert.equal(first[7], '8: 0');
    assert.equal(first[23], `24: ${1 << 20}`);
  });

  test('change nothing, and do not wait, where one marks more steps than the others', async () => {
    const results = await runContexts(3, async (context, rank) => {
      const { tuner, warnings } = makeTuner(context, rank === 0 ? scripted([1, 2, 3]) : undefined, 4);
      const defaults = context.tuned.fusionThresholdBytes;
      for (let step = 1; step <= 150; step++) {
        await train(context);
        context.steps.mark();
        await tuner.settled();
        if (rank !== 2 || step % 4 !== 0) continue;
        context.steps.mark();
        await tuner.settled();
      }
      assert.equal(context.tuned.fusionThresholdBytes, defaults);
      return warnings;
    });
    assert.match(String(results[0]), /the ranks do not end their steps at the same point/);
    assert.deepEqual(results.slice(1), [[], []]);
  });

  test('find step again after one has joined', async () => {
    const traces = await runContexts(2, async (context, rank) => {
      const decider = rank === 0 ? scripted([500, 600]) : undefined;
      const { tuner } = makeTuner(context, decider);
      const defaults = context.tuned.fusionThresholdBytes;
      const step = async () => {
        const x = new Float32Array(2).fill(1);
        await allreduce(context, x, { op: Sum, name: 'gradient' });
        context.steps.mark();
        await tuner.settled();
      };
      // Rank 1 has less data: it is away when the others come to the exchange.
      for (let i = 0; i < (rank === 0 ? 6 : 2); i++) await step();
      await joinRanks(context);
      assert.equal(context.tuned.fusionThresholdBytes, defaults);
      for (let i = 0; i < 40; i++) await step();
      return { value: context.tuned.fusionThresholdBytes, agreed: decider?.agreedOn.length };
    });
    assert.equal(traces[0]?.value, traces[1]?.value);
    assert.ok((traces[0]?.agreed ?? 0) >= 2, 'they never agreed again');
  });

  test('leave out an exchange while something is in flight', async () => {
    await runContexts(2, async (context, rank) => {
      const decider = rank === 0 ? scripted([500, 600]) : undefined;
      const { tuner } = makeTuner(context, decider);
      const defaults = context.tuned.fusionThresholdBytes;
      for (let i = 1; i <= 3; i++) {
        await train(context);
        context.steps.mark();
      }
      await train(context);
      // On rank 1 the user has started something that rank 0 starts only after its mark.
      const early = rank === 1 ? allreduce(context, new Float32Array(1), { name: 'early' }) : undefined;
      context.steps.mark();
      const late = early ?? allreduce(context, new Float32Array(1), { name: 'early' });
      await Promise.all([late, tuner.settled()]);
      assert.equal(context.tuned.fusionThresholdBytes, defaults);
      for (let i = 1; i <= 8; i++) {
        await train(context);
        context.steps.mark();
        await tuner.settled();
      }
      assert.equal(context.tuned.fusionThresholdBytes, 500);
    });
  });
});

test('a rank that has ended its part and shut down ends tuning, and not the process sets of the others', async () => {
  await runContexts(
    3,
    async (context, rank, { sets }) => {
      const { tuner, warnings } = makeTuner(context, rank === 0 ? scripted([1]) : undefined);
      if (rank === 2) {
        context.steps.mark();
        context.close();
        return;
      }
      for (let step = 1; step <= 20; step++) {
        const sum = await allreduce(context, Float32Array.of(step), { op: Sum, processSet: sets[0] });
        assert.equal(sum[0], 2 * step);
        context.steps.mark();
        await tuner.settled();
      }
      assert.equal(tuner.isOver, true);
      assert.equal(warnings.length, rank === 0 ? 1 : 0);
      await assert.rejects(allreduce(context, Float32Array.of(1)), { code: 'ERR_HVD_SHUT_DOWN' });
    },
    { processSets: [[0, 1]] },
  );
});

describe('autotune on a context', () => {
  const settings = {
    autotuneLog: undefined,
    autotuneFile: undefined,
    autotuneWarmupSamples: 1,
    autotuneMaxSamples: 4,
    autotuneNoise: undefined,
  };
  const autotuneOf = (extra: Partial<Autotune['settings']>, lines: string[], ranks = 2): Autotune => ({
    word: { stepsPerSample: 2, given: [] },
    settings: { ...settings, ...extra },
    shape: jobShape('memory', new Array<number>(ranks).fill(0)),
    say: (text) => void lines.push(text),
  });

  test('tunes what is used, tells what it does, writes a log whose last row is the choice, and a result', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'hvd-autotune-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const [log, file] = [join(directory, 'log.csv'), join(directory, 'result.json')];
    const lines: string[] = [];
    const values = await runContexts(2, async (context) => {
      const tuner = attachAutotune(context, autotuneOf({ autotuneLog: log, autotuneFile: file }, lines));
      assert.ok(tuner !== undefined);
      for (let step = 0; step < 100 && !tuner.isOver; step++) {
        await train(context);
        context.steps.mark();
        await tuner.settled();
      }
      assert.equal(tuner.isOver, true);
      return context.tuned;
    });
    assert.equal(values[0]?.fusionThresholdBytes, values[1]?.fusionThresholdBytes);
    assert.equal(values[0]?.cycleTimeMs, values[1]?.cycleTimeMs);
    const rows = readFileSync(log, 'utf8').trim().split('\n');
    assert.equal(rows[0], 'phase,fusion_threshold_bytes,cycle_time_ms,step_ms,steps_per_second');
    assert.match(rows[1] as string, /^searching,134217728,0,/);
    assert.match(rows.at(-1) as string, new RegExp(`^chosen,${values[0]?.fusionThresholdBytes},`));
    assert.match(lines.join('\n'), /searching 1\/4: .* a step with fusionThresholdBytes 128 MiB/);
    assert.match(lines.join('\n'), /is over: /);
    const saved = readResult(file, assert.fail) as SavedResult;
    assert.equal(misfit(saved, autotuneOf({}, []).shape), undefined);
  });

  test('goes on without a log that cannot be written, and warns once', async () => {
    await runContexts(2, async (context, rank, { log }) => {
      const tuner = attachAutotune(context, autotuneOf({ autotuneLog: '/nowhere/at/all.csv' }, []));
      for (let step = 0; step < 100 && tuner?.isOver === false; step++) {
        await train(context);
        context.steps.mark();
        await tuner.settled();
      }
      assert.equal(tuner?.isOver, true);
      const warnings = log.filter((line) => line.includes('the log of autotune cannot be written'));
      assert.equal(warnings.length, rank === 0 ? 1 : 0);
    });
  });

  test('one rank: says so and does nothing', async () => {
    const lines: string[] = [];
    await runContexts(1, (context) => {
      assert.equal(attachAutotune(context, autotuneOf({}, lines, 1)), undefined);
    });
    assert.match(String(lines), /nothing to do in a job of one rank/);
  });

  test('a result that fits is used and not sought again; what the user gives wins', async () => {
    const shape = jobShape('memory', [0, 0]);
    const saved: SavedResult = {
      format: 1,
      shape,
      values: { fusionThresholdBytes: 4096, cycleTimeMs: 2 },
      comparison: { beforeMs: 2, afterMs: 1, gain: 0.5, noise: 0.1, isBetter: true },
    };
    const lines: string[] = [];
    await runContexts(2, (context) => {
      const autotune = autotuneOf({ autotuneFile: 'x' }, lines);
      const word = { stepsPerSample: 2, given: ['cycleTimeMs'], saved };
      assert.equal(attachAutotune(context, { ...autotune, word }), undefined);
      assert.equal(context.tuned.fusionThresholdBytes, 4096);
      assert.equal(context.tuned.cycleTimeMs, 0);
    });
    assert.match(
      String(lines),
      /uses the result in x: fusionThresholdBytes 4096 \(it saved 50.0 % of a step\)/,
    );
  });

  test('in an elastic job, every rank keeps what was found; the next rank 0 tells ranks of the same shape', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'hvd-autotune-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const autotuneLog = join(directory, 'log.csv');
    const rows = () => readFileSync(autotuneLog, 'utf8').trim().split('\n');
    const kept = [0, 1].map(() => new SettledResults());
    const train120 = (ranks: number, word: Autotune['word'], lines: string[], isContinued: boolean) =>
      runContexts(ranks, async (context, rank) => {
        const settled = kept[rank];
        const autotune = { ...autotuneOf({ autotuneLog }, lines, ranks), word, settled, isContinued };
        const tuner = attachAutotune(context, autotune);
        for (let step = 0; step < 120 && tuner?.isOver === false; step++) {
          await train(context);
          context.steps.mark();
          await tuner.settled();
        }
        return [context.tuned.fusionThresholdBytes, context.tuned.cycleTimeMs];
      });
    const found = await train120(2, { stepsPerSample: 2, given: [] }, [], false);
    assert.equal(kept[0]?.list().length, 1);
    assert.deepEqual(kept[1]?.list(), kept[0]?.list());
    const searched = rows();
    // The one that was rank 1 is rank 0 now.
    const word = { stepsPerSample: 2, given: [], settled: kept[1]?.list() };
    const lines: string[] = [];
    assert.deepEqual(await train120(2, word, lines, true), found);
    assert.match(String(lines), /goes on with what it has found for ranks on hosts like these: /);
    assert.deepEqual(rows(), searched, 'nothing more was tried');
    await train120(3, word, [], true);
    assert.deepEqual(rows().slice(0, searched.length), searched, 'the log goes on');
    assert.ok(rows().length > searched.length, 'three ranks are another shape');
    assert.deepEqual(
      kept[0]?.list().map(({ shape }) => shape.ranks),
      [3, 2],
    );
  });

  test('a result of another job is not used, and it is said why', () => {
    const saved: SavedResult = { format: 1, shape: jobShape('tcp', [0, 0, 1]), values: {} };
    for (const [shape, reason] of [
      [jobShape('shm', [0, 0, 0]), /for the transport tcp, and this is shm/],
      [jobShape('tcp', [0, 1]), /for 3 ranks, and there are 2/],
      [jobShape('tcp', [0, 1, 2]), /hosts with 2, 1 ranks, and these have 1, 1, 1/],
      [{ ...saved.shape, version: 'x' }, /of version/],
    ] as const) {
      const lines: string[] = [];
      const say = (text: string) => void lines.push(text);
      assert.equal(savedValues({ stepsPerSample: 1, given: [], saved }, shape, say), undefined);
      assert.match(String(lines), reason);
    }
  });

  test('a result file that cannot be read gives a warning and is overwritten', (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'hvd-autotune-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const file = join(directory, 'result.json');
    const warnings: string[] = [];
    const warn = (text: string) => void warnings.push(text);
    assert.equal(readResult(file, warn), undefined);
    assert.deepEqual(warnings, []);
    writeFileSync(file, '{"format": 9}');
    assert.equal(readResult(file, warn), undefined);
    assert.match(String(warnings), /is not an autotune result/);
    const result: SavedResult = { format: 1, shape: jobShape('shm', [0, 0]), values: { overlap: 'always' } };
    assert.equal(writeResult(file, result, assert.fail), true);
    assert.deepEqual(readResult(file, assert.fail), result);
    for (const values of [{ cycleTimeMs: 1e6 }, { bucketBytes: -1 }, { overlap: null }]) {
      writeFileSync(file, JSON.stringify({ ...result, values }));
      assert.equal(readResult(file, warn), undefined);
    }
    assert.equal(warnings.length, 4);
    assert.equal(writeResult(join(directory, 'no', 'such'), result, warn), false);
    assert.equal(existsSync(join(directory, 'no')), false);
  });
});

describe('tunables of a job', () => {
  const facts = async (given: readonly string[], change: (tuned: HorovodContext['tuned']) => void) => {
    const [names] = await runContexts(1, ({ tuned }) => {
      change(tuned);
      const tunables = jobTunables({
        tuned,
        given: new Set(given),
        background: 'crowded',
        more: [{ kind: 'choice', name: 'hierarchicalAllreduce', choices: [true, false], defaultValue: true }],
      });
      return tunables.map(({ name, defaultValue }) => `${name} ${defaultValue}`);
    });
    return names;
  };

  test('are those that the program uses and nobody has given', async () => {
    assert.deepEqual(await facts([], () => {}), ['hierarchicalAllreduce true']);
    const all = (tuned: HorovodContext['tuned']) => {
      tuned.hasBatches = true;
      tuned.hasBuckets = true;
      tuned.compressions = ['none', 'fp16'];
    };
    assert.deepEqual(await facts(['cycleTimeMs'], all), [
      'fusionThresholdBytes 134217728',
      'overlap auto',
      'bucketBytes 2097152',
      'hierarchicalAllreduce true',
      'compression none',
    ]);
    assert.deepEqual(
      await facts(['fusionThresholdBytes', 'cycleTimeMs', 'bucketBytes', 'hierarchicalAllreduce'], all),
      ['overlap auto', 'compression none'],
    );
    // No core is to spare, and overlap has to stay as it is: there will be no buckets.
    assert.deepEqual(await facts(['overlap', 'fusionThresholdBytes', 'cycleTimeMs'], all), [
      'hierarchicalAllreduce true',
      'compression none',
    ]);
  });
});
