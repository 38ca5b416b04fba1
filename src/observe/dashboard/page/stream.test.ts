import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dashboardStart, sampleAt } from '../../../../test/support/dashboard-states.ts';
import { type ConnectionState, type Source, Stream } from './stream.ts';

const shape = { ranks: 1, samples: 1 };
const start = dashboardStart(shape);
const end = { at: 1, isSuccess: true, text: 'done' };

/** An EventSource without a network. */
class FakeSource implements Source {
  readonly #listeners = new Map<string, (event: { readonly data?: string }) => void>();
  readyState = 0;
  isClosed = false;

  addEventListener(name: string, listener: (event: { readonly data?: string }) => void): void {
    this.#listeners.set(name, listener);
  }

  close(): void {
    this.isClosed = true;
  }

  send(name: string, data?: unknown): void {
    this.#listeners.get(name)?.(data === undefined ? {} : { data: JSON.stringify(data) });
  }
}

function openStream() {
  const sources: FakeSource[] = [];
  const states: ConnectionState[] = [];
  const events: string[] = [];
  const clock = { now: 1000 };
  const stream = new Stream({
    open: () => {
      const source = new FakeSource();
      sources.push(source);
      return source;
    },
    onEvent: (name) => events.push(name),
    onState: (state) => states.push(state),
    now: () => clock.now,
  });
  return { stream, sources, states, events, clock, newest: () => sources.at(-1) as FakeSource };
}

describe('the stream', () => {
  test('is live with its first event, and hands on all of them', () => {
    const { newest, states, events } = openStream();
    newest().send('start', start);
    newest().send('sample', sampleAt(shape, 1));
    assert.deepEqual([states, events], [['live'], ['start', 'sample']]);
  });

  test('leaves it to the browser to connect again after a failure', () => {
    const { stream, newest, sources, states } = openStream();
    newest().send('start', start);
    newest().send('error');
    stream.check();
    assert.deepEqual([sources.length, states], [1, ['live', 'lost']]);
    newest().send('start', start);
    assert.deepEqual(states, ['live', 'lost', 'live']);
  });

  test('tries again later and later where the browser gives up, as after an error of the server', () => {
    const { stream, newest, sources, clock } = openStream();
    const waits: number[] = [];
    for (let failure = 0; failure < 7; failure++) {
      newest().readyState = 2;
      newest().send('error');
      const before = sources.length;
      const failedAt = clock.now;
      for (; sources.length === before; clock.now += 500) stream.check();
      waits.push(clock.now - 500 - failedAt);
    }
    assert.deepEqual(waits, [1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  });

  test('gives a silent connection up, and hears nothing of it any more', () => {
    const { stream, sources, newest, states, events, clock } = openStream();
    newest().send('start', start);
    clock.now += 19_000;
    stream.check();
    assert.equal(sources.length, 1);
    // The computer has slept.
    clock.now += 3_600_000;
    stream.check();
    assert.equal(sources.length, 2);
    assert.equal(sources[0]?.isClosed, true);
    sources[0]?.send('sample', sampleAt(shape, 1));
    sources[0]?.send('error');
    assert.deepEqual([states, events], [['live', 'connecting'], ['start']]);
    newest().send('start', start);
    assert.equal(stream.state, 'live');
  });

  for (const [how, send] of [
    ['with its end', (source: FakeSource) => source.send('end', end)],
    ['with a beginning that has an end', (source: FakeSource) => source.send('start', { ...start, end })],
  ] as const) {
    test(`ends ${how}, and stays so`, () => {
      const { stream, newest, sources, clock, states } = openStream();
      send(newest());
      assert.equal(newest().isClosed, true);
      clock.now += 1_000_000;
      stream.check();
      assert.deepEqual([sources.length, states.at(-1)], [1, 'ended']);
    });
  }
});
