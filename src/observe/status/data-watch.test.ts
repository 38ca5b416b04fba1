import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type DataSource, DataWatch } from './data-watch.ts';

/** A pipeline whose loop waits a share of each step. */
class FakeSource implements DataSource {
  taken = 0;
  waited = 0;
  readonly busy = new Map<string, number>();
  shares: ReadonlyMap<string, number> | undefined;

  step(waitMs: number): void {
    this.taken += 1;
    this.waited += waitMs;
  }

  waitedMs(): number {
    return this.waited;
  }

  busyMs(): ReadonlyMap<string, number> {
    return this.busy;
  }

  advice(shares: ReadonlyMap<string, number>): string {
    this.shares = shares;
    return 'raise it';
  }
}

/** Looks every half second, after `steps` steps of which each has waited `waitMs`. */
function looks(
  watch: DataWatch,
  source: FakeSource,
  { from, until, waitMs }: { from: number; until: number; waitMs: number },
) {
  let status = watch.look(from);
  for (let atMs = from + 500; atMs <= until; atMs += 500) {
    for (let step = 0; step < 5; step += 1) source.step(waitMs);
    status = watch.look(atMs);
  }
  return status;
}

describe('the watch of pipelines', () => {
  test('says nothing without a pipeline, and before one has delivered anything', () => {
    const watch = new DataWatch(() => {});
    assert.equal(watch.look(0), undefined);
    watch.add(new FakeSource());
    assert.equal(watch.look(500), undefined);
    assert.equal(watch.look(1000), undefined);
  });

  test('gives the share of the last seconds, and the advice only where it is too large', () => {
    const watch = new DataWatch(() => {});
    const source = new FakeSource();
    watch.add(source);
    assert.deepEqual(looks(watch, source, { from: 0, until: 10_000, waitMs: 3 }), { share: 0.03 });
    source.busy.set('map(augment)', 4000);
    const starved = looks(watch, source, { from: 10_000, until: 30_000, waitMs: 40 });
    assert.equal(starved?.share, 0.4);
    assert.equal(starved.advice, 'raise it');
    assert.ok(
      (starved.starvedMs ?? 0) >= 19_000 && (starved.starvedMs ?? 0) < 20_000,
      `${starved.starvedMs}`,
    );
    assert.deepEqual(looks(watch, source, { from: 30_000, until: 40_000, waitMs: 0 }), { share: 0 });
    assert.equal(looks(watch, source, { from: 40_000, until: 42_000, waitMs: 40 })?.starvedMs, 1000);
  });

  test('sees a loop that waits now and has taken nothing', () => {
    const watch = new DataWatch(() => {});
    const source = new FakeSource();
    watch.add(source);
    watch.look(0);
    source.waited = 900;
    assert.deepEqual(watch.look(1000), { share: 0.9, starvedMs: 0, advice: 'raise it' });
  });

  test('tells the advice how busy stages were lately, of the pipeline that waits most', () => {
    const watch = new DataWatch(() => {});
    const [slow, quick] = [new FakeSource(), new FakeSource()];
    watch.add(quick);
    watch.add(slow);
    slow.busy.set('read', 5000);
    watch.look(0);
    quick.step(1);
    slow.step(300);
    slow.busy.set('read', 5900);
    assert.equal(watch.look(1000)?.share, 0.301);
    assert.deepEqual([...(slow.shares ?? [])], [['read', 0.9]]);
    assert.equal(quick.shares, undefined);
  });

  test('forgets a pipeline that has ended', () => {
    const watch = new DataWatch(() => {});
    const source = new FakeSource();
    const end = watch.add(source);
    looks(watch, source, { from: 0, until: 2000, waitMs: 50 });
    end();
    assert.equal(watch.look(2500), undefined);
  });

  test('passes waits on', () => {
    const waits: number[][] = [];
    new DataWatch((...wait) => waits.push(wait)).waited(3, 5);
    assert.deepEqual(waits, [[3, 5]]);
  });
});
