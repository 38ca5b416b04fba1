import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkTrace } from '../../../test/support/check-trace.ts';
import { ControlBlock } from '../../control/control-block.ts';
import { Collector } from '../../observe/timeline/collector.ts';
import { TimelineRecorder } from '../../observe/timeline/recorder.ts';
import { RingWriter, sessionOf } from '../../observe/timeline/ring.ts';
import {
  collectingHere,
  publishedRing,
  publishRing,
  setCollecting,
} from '../../observe/timeline/ring-registry.ts';
import { encodeMessage, parseMessage } from './messages.ts';
import { type TimelineMessage, TimelineRelay } from './timeline-relay.ts';

test('events of another host come into the file, by the clock of this one', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-relay-'));
  const blocks = [ControlBlock.create(2), ControlBlock.create(2)] as const;
  t.after(() => {
    for (const block of blocks) block.close();
    rmSync(directory, { recursive: true });
  });
  const nowUs = () => Number(process.hrtime.bigint()) / 1e3;
  // The other host's clock is an hour ahead.
  const ahead = 3600e6;
  const relays: TimelineRelay[] = [];
  const sent: TimelineMessage[] = [];
  let isFull = false;
  const relayOf = (me: 0 | 1, clock: () => number) =>
    new TimelineRelay(
      blocks[me],
      [me],
      {
        peers: [1 - me],
        canSay: () => !isFull,
        say(peer, message) {
          sent.push(message);
          // As it travels, checked by the other side.
          const parsed = parseMessage(Buffer.from(encodeMessage(message))) as TimelineMessage;
          assert.deepEqual(parsed, message);
          relays[peer]?.hear(me, [me], parsed);
        },
      },
      clock,
    );
  relays.push(
    relayOf(0, nowUs),
    relayOf(1, () => nowUs() + ahead),
  );
  const turn = () => {
    for (const relay of relays) relay.turn();
  };

  const ring = new RingWriter({ capacity: 256 * 1024, session: sessionOf('trace.json') });
  const recorder = new TimelineRecorder(
    ring,
    { rank: 1, size: 2, host: 'b', pid: 7, transport: 'tcp', cores: 2 },
    { markCycles: false },
  );
  publishRing(blocks[1].fd, 1, ring.path);
  turn();
  assert.equal(sent.length, 0, 'nobody collects, nothing is sent');

  const own = new RingWriter({ capacity: 64 * 1024 });
  const file = join(directory, 'trace.json');
  const controlBlock = { path: blocks[0].path, ranks: 2 };
  const collector = new Collector({ file, maxBytes: 1 << 20, ownRing: own.path, controlBlock });
  const began = nowUs();
  turn();
  assert.equal(collectingHere(blocks[1].fd), 'relay');
  recorder.slice('training', 'BACKPROP', began + ahead + 1000, began + ahead + 3000);
  recorder.flush();
  isFull = true;
  turn();
  assert.ok(!ring.isDrained, 'a connection that is full leaves events in the ring');
  isFull = false;
  turn();
  assert.notEqual(publishedRing(blocks[0].fd, 1), '');
  collector.turn();
  recorder.end();
  turn();
  own.end();
  collector.turn();
  collector.turn();
  assert.ok(collector.isOver);
  collector.close();
  turn();
  assert.equal(collectingHere(blocks[1].fd), 'nobody');
  assert.equal(publishedRing(blocks[0].fd, 1), '');
  const events = checkTrace(file);
  const found = events.find(({ name }) => name === 'BACKPROP');
  assert.ok(found);
  assert.equal(Math.round(found.dur as number), 2000);
  // Some milliseconds after the file was begun, not an hour.
  assert.ok(found.ts > 0 && found.ts < 5e6, `${found.ts}`);
  const process1 = events.find(({ args }) => args?.['name'] === 'rank 1 (b, pid 7)');
  const errorUs = process1?.args?.['clock_error_us'];
  assert.ok(typeof errorUs === 'number' && Number.isFinite(errorUs), JSON.stringify(process1));
  assert.ok(found.ts + errorUs >= 1000, `began at ${began}, drawn at ${found.ts} ± ${errorUs}`);
  for (const relay of relays) relay.close();
  ring.close();
  own.close();
});

test('without memory for the rings of other hosts there is no timeline of them, and no harm', (t) => {
  const block = ControlBlock.create(2);
  t.after(() => block.close());
  const relay = new TimelineRelay(block, [0], {
    peers: [1],
    shmDirectory: join(tmpdir(), 'no-such-directory-anywhere'),
    canSay: () => true,
    say() {},
  });
  setCollecting(block.fd, 'collector', 5);
  relay.turn();
  const message = {
    type: 'events',
    rank: 1,
    ring: 1,
    session: 5,
    data: '',
    dropped: 0,
    isOver: false,
  } as const;
  for (let i = 0; i < 2; i++) relay.hear(1, [1], message);
  relay.turn();
  assert.equal(publishedRing(block.fd, 1), '');
  relay.close();
});
