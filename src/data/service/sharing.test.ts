// Batches that trainers copy from the memory of a compute worker on the same host: the arena, who is told what, and when memory is used
// again. And the whole service with and without it.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { TestService } from '../../../test/support/data-service.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { loadNative } from '../../transport/native/load.ts';
import type { Dataset } from '../dataset.ts';
import { exported } from '../plan/function-reference.ts';
import { rangeDataset } from '../sources.ts';
import { type ArenaPlace, BatchArena, PeerBatches } from './batch-arena.ts';
import type { Link } from './link.ts';
import type { Message } from './messages.ts';
import { Payload, Sharing } from './sharing.ts';

const found = loadNative();
const skip = found.built ? false : `needs the addon: ${found.reason}`;

const filled = (bytes: number, value: number) => new Uint8Array(bytes).fill(value);

/** A trainer as the worker sees it. */
class Trainer {
  readonly messages: Message[] = [];
  readonly link = { send: (message: Message) => this.messages.push(message) } as never as Link;

  get place(): ArenaPlace {
    const message = this.messages.findLast(({ kind }) => kind === 'arena');
    return (message as Extract<Message, { kind: 'arena' }>).place;
  }

  opensThe(sharing: Sharing): void {
    sharing.offerTo(this.link);
    sharing.opened(this.link, { id: this.place.id, isOpen: true });
  }
}

function madeIn(sharing: Sharing, bytes: number, value: number, isOwned = true): Payload {
  const memory = new Uint8Array(sharing.allocate(bytes), 0, bytes).fill(value);
  return new Payload([memory], isOwned);
}

describe('the arena of a compute worker', { skip }, () => {
  const arena = skip === false ? BatchArena.open({}) : undefined;
  after(() => arena?.close());
  const open = (place: ArenaPlace = (arena as BatchArena).place) => PeerBatches.open({}, place);
  const copyOf = (payload: readonly Uint8Array[]) => {
    const shared = arena?.share(payload);
    const peer = open();
    assert.ok(shared !== undefined && peer !== undefined);
    const bytes = payload.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const target = new Uint8Array(bytes);
    assert.equal(peer.copy(shared.pieces, target), true);
    peer.close();
    return { ...shared, target };
  };

  test('is copied from, without a copy into it of what was made there', () => {
    const made = new Uint8Array((arena as BatchArena).allocate(100_000), 0, 100_000).fill(3);
    const { target, copies, pieces } = copyOf([made]);
    assert.deepEqual([copies.length, pieces.length], [0, 1]);
    assert.deepEqual(target, filled(100_000, 3));
  });

  test('takes what was made elsewhere, in one piece', () => {
    const made = new Uint8Array((arena as BatchArena).allocate(4096), 0, 4096).fill(1);
    const { target, copies, pieces } = copyOf([filled(10, 5), made, new Uint8Array(0), filled(7, 6)]);
    assert.deepEqual([copies.length, pieces.length], [1, 3]);
    assert.deepEqual([...target], [...filled(10, 5), ...made, ...filled(7, 6)]);
  });

  test('takes thousands of small pieces as one', () => {
    const payload = Array.from({ length: 5000 }, (_, at) => filled(1 + (at % 3), at));
    const { target, pieces } = copyOf(payload);
    assert.equal(pieces.length, 1);
    assert.deepEqual(target, new Uint8Array(Buffer.concat(payload)));
  });

  test('is opened only by who reads the proof in it: a file of the same number is another one', () => {
    const { place } = arena as BatchArena;
    assert.equal(open({ ...place, proof: '00'.repeat(16) }), undefined);
    assert.equal(open({ ...place, id: place.id + 1 }), undefined);
    assert.equal(open({ ...place, descriptor: 0 }), undefined);
    assert.equal(open({ ...place, pid: 2 ** 31 - 1 }), undefined);
    open()?.close();
  });

  test('has no bytes beyond its end', () => {
    const peer = open();
    assert.equal(peer?.copy([[2 ** 45, 8]], new Uint8Array(8)), false);
    assert.equal(peer?.copy([[0, 8]], new Uint8Array(16)), false);
    peer?.close();
  });
});

describe('sharing the memory of a compute worker', { skip }, () => {
  test('begins when a trainer has opened the arena', () => {
    const sharing = new Sharing({});
    const trainer = new Trainer();
    sharing.offerTo(trainer.link);
    const payload = madeIn(sharing, 1000, 1);
    assert.equal(sharing.share(trainer.link, payload), undefined);
    sharing.opened(trainer.link, { id: trainer.place.id, isOpen: false });
    assert.equal(sharing.share(trainer.link, payload), undefined);
    sharing.opened(trainer.link, { id: trainer.place.id, isOpen: true });
    assert.notEqual(sharing.share(trainer.link, payload), undefined);
    sharing.close();
  });

  test('memory is used again when the worker and all trainers are done with it, and not before', () => {
    const sharing = new Sharing({});
    const [one, other] = [new Trainer(), new Trainer()];
    one.opensThe(sharing);
    other.opensThe(sharing);
    const payload = madeIn(sharing, 100_000, 1);
    const memory = payload.pieces[0]?.buffer;
    const numbers = [one, other].map(({ link }) => sharing.share(link, payload)?.number as number);
    payload.done();
    sharing.free(payload);
    sharing.copied(one.link, numbers[0] as number);
    sharing.copied(one.link, numbers[0] as number);
    assert.notEqual(sharing.allocate(100_000), memory);
    sharing.copied(other.link, numbers[1] as number);
    assert.equal(sharing.allocate(100_000), memory);
    sharing.close();
  });

  test('memory that a function may have kept, or that a socket reads, is not used again', () => {
    const sharing = new Sharing({});
    new Trainer().opensThe(sharing);
    const [kept, sent] = [madeIn(sharing, 100_000, 1, false), madeIn(sharing, 100_000, 1)];
    sent.goesOverConnection();
    for (const each of [kept, sent]) {
      each.done();
      sharing.free(each);
    }
    const next = [sharing.allocate(100_000), sharing.allocate(100_000)];
    for (const each of [kept, sent]) assert.ok(!next.includes(each.pieces[0]?.buffer as ArrayBuffer));
    sharing.close();
  });

  test('what a trainer was copying when it was lost stays as it is; the others get another arena', () => {
    const sharing = new Sharing({});
    const [lost, other] = [new Trainer(), new Trainer()];
    lost.opensThe(sharing);
    other.opensThe(sharing);
    const peer = PeerBatches.open({}, lost.place);
    const payload = madeIn(sharing, 100_000, 7);
    const shared = sharing.share(lost.link, payload);
    const before = other.place;
    payload.done();
    sharing.lose(lost.link);
    sharing.free(payload);
    for (let each = 0; each < 8; each++) madeIn(sharing, 100_000, 9);
    // It was only stopped, and goes on.
    const target = new Uint8Array(100_000);
    assert.equal(peer?.copy(shared?.pieces ?? [], target), true);
    assert.deepEqual(target, filled(100_000, 7));
    peer?.close();
    assert.notEqual(other.place.id, before.id);
    assert.equal(sharing.share(other.link, madeIn(sharing, 10, 1)), undefined);
    sharing.opened(other.link, { id: other.place.id, isOpen: true });
    assert.notEqual(sharing.share(other.link, madeIn(sharing, 10, 1)), undefined);
    sharing.close();
  });

  test('a trainer that has copied everything leaves the arena to the others', () => {
    const sharing = new Sharing({});
    const [gone, other] = [new Trainer(), new Trainer()];
    gone.opensThe(sharing);
    other.opensThe(sharing);
    const shared = sharing.share(gone.link, madeIn(sharing, 10, 1));
    sharing.copied(gone.link, shared?.number as number);
    const before = other.place;
    sharing.lose(gone.link);
    assert.equal(other.place.id, before.id);
    assert.notEqual(sharing.share(other.link, madeIn(sharing, 10, 1)), undefined);
    sharing.close();
  });
});

describe('a data service on one host', { skip }, () => {
  const functions = new URL('../../../test/support/pipeline-functions.js', import.meta.url);
  const plan = () =>
    rangeDataset(0, 600, { shuffle: { seed: 2, pool: 100 }, lanes: 8 })
      .map(exported(functions, 'noisy'))
      .batch(16) as Dataset;
  const epochs = async (service: TestService) => {
    const data = service.through(plan());
    const batches: string[] = [];
    for (let epoch = 0; epoch < 2; epoch++)
      for await (const batch of data) {
        batches.push([...((batch as Tensor).data as Float64Array)].join());
        data.iterator().release(batch);
      }
    const shared = service.workers.reduce((sum, { worker }) => sum + worker.sharedBatches, 0);
    return { batches: batches.sort(), shared };
  };

  test('hands batches over through memory: the same as over connections, with threads and without', async () => {
    await using connected = await TestService.start({ workers: 2, sharesMemory: false });
    const expected = await epochs(connected);
    assert.equal(expected.shared, 0);
    for (const threads of ['0', '2']) {
      await using service = await TestService.start({
        workers: 2,
        environment: { HOROVOD_DATA_THREADS: threads },
      });
      const { batches, shared } = await epochs(service);
      assert.deepEqual(batches, expected.batches);
      // Those that were made before the arena was open went over connections.
      assert.ok(shared > 40, `${shared} of ${batches.length}`);
    }
  });

  test('uses connections where workers have no addon', async () => {
    await using service = await TestService.start({ workers: 1, environment: { HOROVOD_NATIVE: '0' } });
    const { batches, shared } = await epochs(service);
    assert.deepEqual([batches.length, shared], [76, 0]);
  });
});
