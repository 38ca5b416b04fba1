import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connectPair } from '../../../test/support/link-pair.ts';
import { bytes } from '../../../test/support/transport-data.ts';
import { until } from '../../../test/support/transport-world.ts';
import { Link } from './link.ts';

const deadline = { timeout: 30_000 };

async function withLinks(body: (links: [Link, Link]) => Promise<void>, isEncrypted = false): Promise<void> {
  const [dialed, accepted] = await connectPair();
  const links: [Link, Link] = [new Link(dialed, { isEncrypted }), new Link(accepted, { isEncrypted })];
  try {
    await body(links);
  } finally {
    for (const link of links) link.close();
  }
}

describe('a link', () => {
  for (const isEncrypted of [false, true]) {
    const how = isEncrypted ? 'encrypted' : 'in the clear';
    test(`carries megabytes both ways at once, into places of any size, ${how}`, deadline, () =>
      withLinks(async (links) => {
        const data = [bytes(9_000_001, 1), bytes(9_000_001, 2)] as const;
        const received = [new Uint8Array(9_000_001), new Uint8Array(9_000_001)] as const;
        const tickets = links.map((link, i) => {
          const mine = data[i as 0 | 1];
          const place = received[i as 0 | 1];
          link.send(mine.subarray(0, 10));
          link.send(mine.subarray(10, 10));
          const sent = link.send(mine.subarray(10));
          link.receive(place.subarray(0, 5_000_000));
          return { sent, received: link.receive(place.subarray(5_000_000)) };
        });
        await until(() => {
          for (const link of links) link.pump();
          return links.every((link, i) => {
            const ticket = tickets[i] as (typeof tickets)[0];
            return link.hasSent(ticket.sent) && link.hasReceived(ticket.received);
          });
        }, 'all bytes arrive');
        assert.ok(Buffer.from(received[0]).equals(data[1]));
        assert.ok(Buffer.from(received[1]).equals(data[0]));
        assert.ok(links.every(({ isIdle }) => isIdle));
      }, isEncrypted),
    );
  }

  test('of the accepting side sends nothing before the other one is ready', deadline, async () => {
    const [dialed, accepted] = await connectPair();
    const link = new Link(accepted);
    try {
      const ticket = link.send(Uint8Array.of(1, 2, 3));
      for (let i = 0; i < 10; i++) link.pump();
      assert.ok(!link.hasSent(ticket));
      const other = new Link(dialed);
      await until(() => {
        other.pump();
        link.pump();
        return link.hasSent(ticket);
      }, 'the ready byte arrives');
      other.close();
    } finally {
      link.close();
      dialed.release();
    }
  });

  test('takes what came before the end, and then says that it ended', deadline, () =>
    withLinks(async ([a, b]) => {
      const place = new Uint8Array(3);
      const sent = a.send(Uint8Array.of(1, 2, 3));
      await until(() => {
        a.pump();
        return a.hasSent(sent);
      }, 'three bytes leave');
      a.close();
      const ticket = b.receive(place);
      const next = b.receive(new Uint8Array(1));
      await until(() => {
        b.pump();
        return b.end !== undefined;
      }, 'the end is seen');
      assert.ok(b.hasReceived(ticket) && !b.hasReceived(next));
      assert.deepEqual(place, Uint8Array.of(1, 2, 3));
      assert.match(b.end?.reason ?? '', /was closed by the other side/);
    }),
  );

  test('says that it broke when nobody takes what it sends', deadline, () =>
    withLinks(async ([a, b]) => {
      b.close();
      await until(() => {
        a.send(new Uint8Array(100_000));
        a.pump();
        return a.end !== undefined;
      }, 'sending fails');
      assert.match(a.end?.reason ?? '', /broke \((EPIPE|ECONNRESET)\)/);
      a.pump();
    }),
  );
});
