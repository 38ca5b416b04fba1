import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answerExchange, FakeGroup } from '../../test/support/fake-group.ts';
import { HorovodError } from '../errors.ts';
import { Sum } from '../tensor/reduce-op.ts';
import type { AllreduceOperation, Batch } from '../transport/transport.ts';
import type { PendingList } from './agreement/pending-list.ts';
import { Channel } from './channel.ts';
import type { ChannelHost } from './channel-host.ts';
import type { Description } from './description.ts';
import { type ObservedOperation, Observers } from './observer.ts';
import type { Request } from './request.ts';

interface Ended {
  /** 'done', or the code of the error. */
  how?: string;
  error?: HorovodError;
}

/** A channel of rank 0 of two, on a fake group. */
function channelOf(overrides: Partial<ChannelHost> = {}) {
  const group = new FakeGroup();
  const clock = { nowMs: 0 };
  const failures: HorovodError[] = [];
  const givenUp: string[] = [];
  const events: string[] = [];
  const observers = new Observers({ write() {}, tell() {} });
  const note = (event: string) => (operation: ObservedOperation) =>
    void events.push(
      `${event} ${operation.name}${operation.error === undefined ? '' : ` ${operation.error}`}`,
    );
  observers.attach({
    name: 'the test',
    submitted: note('submitted'),
    agreed: note('agreed'),
    settled: note('settled'),
    stage: (operation, stage) => note(stage)(operation),
  });
  const channel: Channel = new Channel(group, {
    rank: 0,
    processSet: 0,
    members: [0, 1],
    fusionThresholdBytes: 1 << 20,
    cycleTimeMs: 0,
    stallAfterMs: 500,
    observers,
    nowMs: () => clock.nowMs,
    fail: (error) => {
      failures.push(error);
      channel.fail(error);
    },
    onGivenUp: (key) => void givenUp.push(key),
    zeroRequest: (description) => requestOf(description.key, {}, description).request,
    ...overrides,
  });
  return { group, channel, clock, failures, givenUp, events };
}

function descriptionOf(key: string, fields: Partial<Description> = {}): Description {
  return {
    key,
    kind: 'allreduce',
    dtypes: ['float32'],
    shapes: [[2]],
    isGrouped: false,
    op: 'Sum',
    prescale: 1,
    postscale: 1,
    root: undefined,
    detail: '',
    ...fields,
  };
}

function requestOf(key: string, fields: Partial<Request> = {}, description = descriptionOf(key)) {
  const ended: Ended = {};
  const data = new Float32Array(2);
  const operation: AllreduceOperation = {
    kind: 'allreduce',
    dtype: 'float32',
    op: Sum,
    inputs: [data],
    outputs: [data],
    prescale: 1,
    postscale: 1,
  };
  const request: Request = {
    description,
    low: key.length,
    high: key.charCodeAt(0),
    operations: description.kind === 'join' ? [{ kind: 'barrier' }] : [operation],
    timeoutMs: 1000,
    submittedAtMs: 0,
    isSettled: false,
    resolve() {
      ended.how = 'done';
    },
    reject(error) {
      ended.how = error.code;
      ended.error = error;
    },
    ...fields,
  };
  return { request, ended, data };
}

/** What the other rank says it waits for. */
function listOf(descriptions: readonly Description[], isBlocked = false, unnamed = 0): PendingList {
  return { isBlocked, unnamed, operations: 0, requests: descriptions };
}

const labels = (batches: readonly Batch[]) => batches.map(({ label }) => label);
/** The end of this tick. */
const tick = () => Promise.resolve();

describe('a channel', () => {
  test('makes one batch of the requests of one tick, sorted by name and fused', async () => {
    const { channel, group } = channelOf();
    const [b, a] = [requestOf('b'), requestOf('a')];
    channel.submit(b.request);
    channel.submit(a.request);
    assert.equal(group.under.length, 0, 'not before the end of the tick');
    await tick();
    assert.deepEqual(labels(group.batches), ['allreduce "a" and 1 more']);
    assert.equal(group.head.rounds.length, 1);
    const fused = group.head.rounds[0]?.operation as AllreduceOperation;
    assert.deepEqual(fused.inputs, [a.data, b.data]);
    group.end('done');
    assert.deepEqual([a.ended.how, b.ended.how], ['done', 'done']);
    assert.ok(channel.isQuiet);
  });

  test('sends requests of different ticks in batches one after the other', async () => {
    const { channel, group } = channelOf();
    channel.submit(requestOf('a').request);
    await tick();
    channel.submit(requestOf('b').request);
    await tick();
    assert.deepEqual(labels(group.batches), ['allreduce "a"', 'allreduce "b"']);
  });

  test('runs a blocking request at once where nothing else is under way', () => {
    const { channel, group } = channelOf();
    const { request, ended } = requestOf('a');
    group.answers.push(() => 'done');
    channel.runSync(request);
    assert.equal(ended.how, 'done');
    assert.deepEqual([labels(group.blocked), group.under.length], [['allreduce "a"'], 0]);
  });

  test('takes along with a blocking request what the tick has collected', () => {
    const { channel, group } = channelOf();
    const [z, a] = [requestOf('z'), requestOf('a')];
    channel.submit(z.request);
    group.answers.push(() => 'done');
    channel.runSync(a.request);
    assert.deepEqual(labels(group.blocked), ['allreduce "a" and 1 more']);
    assert.deepEqual([z.ended.how, a.ended.how], ['done', 'done']);
  });

  test('lets a blocking request wait for what is in front of it', async () => {
    const { channel, group } = channelOf();
    const [first, second] = [requestOf('first'), requestOf('second')];
    channel.submit(first.request);
    await tick();
    group.answers.push(
      () => 'done',
      () => 'done',
    );
    channel.runSync(second.request);
    assert.deepEqual(labels(group.blocked), ['allreduce "first"', 'allreduce "second"']);
    assert.deepEqual([first.ended.how, second.ended.how], ['done', 'done']);
  });

  test('starts at once what is waited for later', () => {
    const { channel, group } = channelOf();
    const { request, ended } = requestOf('a');
    channel.start(request);
    assert.equal(group.under.length, 1);
    group.answers.push(() => 'done');
    channel.waitSync(request);
    assert.equal(ended.how, 'done');
  });

  test('rejects a second request of the same name, and the first one goes on', async () => {
    const { channel, group, events } = channelOf();
    const first = requestOf('a');
    channel.submit(first.request);
    assert.throws(() => channel.submit(requestOf('a').request), { code: 'ERR_HVD_DUPLICATE_NAME' });
    await tick();
    group.end('done');
    assert.equal(first.ended.how, 'done');
    assert.deepEqual(events, ['submitted a', 'submitted a', 'settled a ERR_HVD_DUPLICATE_NAME', 'settled a']);
  });

  test('forgets a blocking request that the transport could not begin', () => {
    const { channel, group, events } = channelOf();
    group.answers.push(() => {
      throw new HorovodError('ERR_HVD_WOULD_BLOCK', 'others run on this thread');
    });
    const { request, ended } = requestOf('a');
    assert.throws(() => channel.runSync(request), { code: 'ERR_HVD_WOULD_BLOCK' });
    assert.deepEqual([ended.how, channel.isIdle], [undefined, true]);
    assert.deepEqual(events, ['submitted a', 'settled a ERR_HVD_WOULD_BLOCK']);
  });

  test('lets a request be withdrawn in its tick, and not later', async () => {
    const { channel, group } = channelOf();
    const [a, b] = [requestOf('a'), requestOf('b')];
    channel.submit(a.request);
    channel.submit(b.request);
    const error = new HorovodError('ERR_HVD_ABORTED', 'no longer wanted');
    assert.equal(channel.withdraw(a.request, error), true);
    await tick();
    assert.deepEqual([a.ended.how, labels(group.batches)], ['ERR_HVD_ABORTED', ['allreduce "b"']]);
    assert.equal(channel.withdraw(b.request, error), false);
    assert.equal(b.ended.how, undefined);
  });

  test('tells observers while a blocking request waits, and when it is about to throw', () => {
    const { channel, group, events } = channelOf();
    group.answers.push((batch) => {
      batch.onStall?.([1]);
      throw new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 died', { rank: 1 });
    });
    const { request, ended } = requestOf('a');
    channel.runSync(request);
    assert.equal(ended.error?.rank, 1);
    assert.deepEqual(events, [
      'submitted a',
      'waiting a',
      'settled a ERR_HVD_PEER_LOST',
      'throwing a ERR_HVD_PEER_LOST',
    ]);
  });
});

describe('a failure', () => {
  test('in mid-flight ends everything that is pending, and everything that comes', async () => {
    const { channel, group, failures } = channelOf();
    const [a, b] = [requestOf('a'), requestOf('b')];
    channel.submit(a.request);
    await tick();
    channel.submit(b.request);
    const lost = new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 died', { rank: 1 });
    group.end(lost);
    assert.deepEqual([a.ended.error, b.ended.error, failures], [lost, lost, [lost]]);
    assert.throws(() => channel.submit(requestOf('c').request), lost);
    assert.equal(channel.isQuiet, false);
    await tick();
    assert.equal(group.under.length, 0);
  });

  test('after which something lands changes nothing', async () => {
    const { channel, group } = channelOf();
    const { request, ended } = requestOf('a');
    channel.submit(request);
    await tick();
    channel.fail(new HorovodError('ERR_HVD_SHUT_DOWN', 'bye'));
    group.end('done');
    assert.equal(ended.how, 'ERR_HVD_SHUT_DOWN');
  });

  test('of a buffer that was transferred before its turn names the operation', async () => {
    const { channel, group, failures } = channelOf();
    const { request, ended, data } = requestOf('a');
    channel.submit(request);
    structuredClone(data, { transfer: [data.buffer] });
    await tick();
    assert.deepEqual([ended.how, failures[0]?.tensor, group.under.length], ['ERR_HVD_DETACHED', 'a', 0]);
  });

  test('that is only a goodbye leaves the job alone where all that waits is optional', async () => {
    const { channel, group, failures } = channelOf();
    const { request, ended } = requestOf('t', {}, descriptionOf('t', { kind: 'autotune' }));
    channel.submit(request);
    await tick();
    group.end(new HorovodError('ERR_HVD_SHUT_DOWN', 'rank 1 has left', { rank: 1 }));
    assert.deepEqual([ended.how, failures.length], ['ERR_HVD_SHUT_DOWN', 0]);
  });
});

describe('after a mismatch', () => {
  test('what all ranks have runs in the agreed order; the rest waits passively', async () => {
    const { channel, group, events } = channelOf();
    const [a, b, c] = [requestOf('a'), requestOf('b'), requestOf('c')];
    for (const { request } of [c, b, a]) channel.submit(request);
    await tick();
    group.end('mismatch');
    assert.deepEqual(labels(group.batches), ['an exchange of pending lists']);
    group.endExchange(listOf([descriptionOf('c'), descriptionOf('a')]));
    assert.deepEqual(labels(group.batches), ['allreduce "a" and 1 more']);
    assert.equal(group.head.passive, false);
    group.end('done');
    assert.deepEqual([a.ended.how, b.ended.how, c.ended.how], ['done', undefined, 'done']);
    assert.deepEqual([labels(group.batches), group.head.passive], [['allreduce "b"'], true]);
    assert.deepEqual(channel.missingFor(b.request), [1]);
    assert.deepEqual(events.slice(3), ['agreed a', 'agreed c', 'settled a', 'settled c']);
  });

  test('requests of the tick and of batches that had not begun are in the list', async () => {
    const { channel, group } = channelOf();
    const [a, b, c] = [requestOf('a'), requestOf('b'), requestOf('c')];
    channel.submit(a.request);
    await tick();
    channel.submit(b.request);
    await tick();
    channel.submit(c.request);
    group.end('mismatch');
    assert.deepEqual(labels(group.batches), ['an exchange of pending lists']);
    group.endExchange(listOf(['a', 'b', 'c'].map((key) => descriptionOf(key))));
    assert.deepEqual(labels(group.batches), ['allreduce "a" and 2 more']);
  });

  test('the leftover is taken back when this rank has something new', async () => {
    const { channel, group, b } = await withLeftover();
    const d = requestOf('d');
    channel.submit(d.request);
    await tick();
    assert.deepEqual([labels(group.batches), group.head.passive], [['allreduce "b" and 1 more'], false]);
    group.end('done');
    assert.deepEqual([b.ended.how, d.ended.how], ['done', 'done']);
  });

  test('a leftover that another rank has drawn into a round ends first', async () => {
    const { channel, group, b } = await withLeftover();
    group.begun.add(group.head);
    const d = requestOf('d');
    channel.submit(d.request);
    await tick();
    assert.deepEqual(labels(group.batches), ['allreduce "b"'], 'd waits');
    group.end('done');
    assert.equal(b.ended.how, 'done');
    assert.deepEqual(labels(group.batches), ['allreduce "d"']);
  });

  test('of a leftover the list comes before anything new, and has it', async () => {
    const { channel, group } = await withLeftover();
    group.begun.add(group.head);
    channel.submit(requestOf('d').request);
    await tick();
    group.end('mismatch');
    assert.deepEqual(labels(group.batches), ['an exchange of pending lists']);
    group.endExchange(listOf([descriptionOf('d')]));
    assert.deepEqual(labels(group.batches), ['allreduce "d"']);
  });

  test('the same name with another shape is an error that names both ranks', async () => {
    const { channel, group } = channelOf();
    const { request, ended } = requestOf('a');
    channel.submit(request);
    await tick();
    group.end('mismatch');
    group.endExchange(listOf([descriptionOf('a', { shapes: [[3]] })]));
    assert.equal(ended.how, 'ERR_HVD_MISMATCH');
    assert.match(ended.error?.detail ?? '', /rank 0 has shape \[2\], but rank 1 has shape \[3\]/);
    assert.deepEqual([ended.error?.tensor, channel.isQuiet], ['a', true]);
  });

  test('a deadlock is proven when all ranks are blocked and have nothing in common', () => {
    const { channel, group } = channelOf();
    group.answers.push(
      () => 'mismatch',
      (batch) => answerExchange(batch, listOf([descriptionOf('b')], true)),
    );
    const { request, ended } = requestOf('a');
    channel.runSync(request);
    assert.equal(ended.how, 'ERR_HVD_DEADLOCK');
    assert.match(ended.error?.detail ?? '', /rank 0 waits for allreduce "a"; rank 1 waits for allreduce "b"/);
  });

  test('a blocked rank waits on while another one is not blocked', () => {
    const { channel, group } = channelOf();
    group.answers.push(
      () => 'mismatch',
      (batch) => answerExchange(batch, listOf([descriptionOf('b')], false)),
      (batch) => {
        assert.deepEqual([batch.label, batch.passive], ['allreduce "a"', true]);
        return 'done';
      },
    );
    const { request, ended } = requestOf('a');
    channel.runSync(request);
    assert.equal(ended.how, 'done');
  });

  test('a rank that has joined takes part with zeros, and its join waits on', async () => {
    const zeros: string[] = [];
    const { channel, group, events } = channelOf({
      zeroRequest: (description) => {
        zeros.push(description.key);
        return requestOf(description.key, {}, description).request;
      },
    });
    const join = requestOf('join', {}, descriptionOf('join', { kind: 'join', dtypes: [], shapes: [] }));
    channel.submit(join.request);
    await tick();
    group.end('mismatch');
    group.endExchange(listOf([descriptionOf('grad')]));
    assert.deepEqual([zeros, labels(group.batches)], [['grad'], ['allreduce "grad"']]);
    group.end('done');
    assert.deepEqual(
      [join.ended.how, labels(group.batches), group.head.passive],
      [undefined, ['join'], true],
    );
    assert.deepEqual(events, ['submitted join', 'zeros grad']);
  });

  test('when all have joined they count unnamed requests alike again', async () => {
    const { channel, group } = channelOf();
    const kind = { kind: 'join', dtypes: [], shapes: [] } as const;
    const join = requestOf('join', { submittedAtMs: 1 }, descriptionOf('join', kind));
    channel.submit(join.request);
    await tick();
    group.end('mismatch');
    group.endExchange(listOf([descriptionOf('join', kind)], false, 41));
    assert.deepEqual([join.ended.how, join.request.lastJoined, channel.nextUnnamed()], ['done', 0, 42]);
  });

  test('an optional request that not all ranks have is given up, and all hear of it', async () => {
    const { channel, group, givenUp } = channelOf();
    const tune = requestOf('t', {}, descriptionOf('t', { kind: 'autotune' }));
    channel.submit(tune.request);
    await tick();
    assert.equal(group.head.isOptional, true);
    group.end('mismatch');
    group.endExchange(listOf([descriptionOf('grad')]));
    assert.deepEqual([tune.ended.how, givenUp, channel.isIdle], ['ERR_HVD_ABORTED', ['t'], true]);
  });

  test('epochs of different ranks that would fit together are noticed by a check that is given up', async () => {
    const texts: string[] = [];
    const { channel, group } = channelOf({
      position: () => ({ steps: 3, isInStep: false, epoch: 1, batches: 3, isEpochOver: true }),
      onUneven: (text) => void texts.push(text),
    });
    channel.submit(requestOf('c', {}, descriptionOf('c', { kind: 'check' })).request);
    await tick();
    group.end('mismatch');
    const training = { steps: 3, isInStep: true, epoch: 1, batches: 3 };
    group.endExchange({ ...listOf([descriptionOf('grad')]), training });
    assert.match(
      texts.join(),
      /^Rank 0 ended epoch 1 after 3 batches, and rank 1 is in batch 4 of epoch 1\./,
    );
    assert.equal(channel.uneven, texts[0]);
  });

  test('a request keeps its deadline, however often others pass it over', async () => {
    const { channel, group, clock, failures, b } = await withLeftover();
    clock.nowMs = 400;
    channel.submit(requestOf('d', { timeoutMs: 5000, submittedAtMs: 400 }).request);
    await tick();
    assert.equal(group.head.timeoutMs, 600);
    group.end('mismatch');
    clock.nowMs = 1001;
    group.endExchange(listOf([descriptionOf('d')]));
    group.end('done');
    assert.deepEqual([b.ended.how, failures[0]?.rank, failures[0]?.tensor], ['ERR_HVD_TIMEOUT', 1, 'b']);
  });

  test('a list that cannot be read ends the job', async () => {
    const { channel, group, failures } = channelOf();
    channel.submit(requestOf('a').request);
    await tick();
    group.end('mismatch');
    group.endExchange({ isBlocked: 'perhaps' } as unknown as PendingList);
    assert.deepEqual([failures[0]?.code, failures[0]?.rank], ['ERR_HVD_NATIVE', 1]);
  });

  test('ranks that disagree about what they agreed on end the job: that is a bug', async () => {
    const { channel, group, failures } = channelOf();
    const { request, ended } = requestOf('a');
    channel.submit(request);
    await tick();
    group.end('mismatch');
    group.end('mismatch');
    assert.deepEqual([ended.how, failures[0]?.code], ['ERR_HVD_NATIVE', 'ERR_HVD_NATIVE']);
  });

  /** "a" has run, and "b" is the leftover. */
  async function withLeftover() {
    const parts = channelOf();
    const [a, b] = [requestOf('a'), requestOf('b')];
    parts.channel.submit(a.request);
    parts.channel.submit(b.request);
    await tick();
    parts.group.end('mismatch');
    parts.group.endExchange(listOf([descriptionOf('a')]));
    parts.group.end('done');
    assert.deepEqual([a.ended.how, parts.group.head.passive], ['done', true]);
    return { ...parts, b };
  }
});
