import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import { until } from '../../test/support/transport-world.ts';
import type { HorovodError } from '../errors.ts';
import * as hvd from '../operations/collectives.ts';
import { prepareAllreduce } from '../operations/prepared.ts';
import { Sum } from '../tensor/reduce-op.ts';
import { runContexts } from '../testing/run-contexts.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await turn();
};
const of = (...values: number[]) => Float32Array.from(values);

describe('a rank that is late', () => {
  test('leftovers wait without a word and run when the others come', async () => {
    await runContexts(2, async (context, rank) => {
      const early = rank === 0 ? hvd.allreduce(context, of(1), { name: 'late', op: Sum }) : undefined;
      await hvd.allreduce(context, of(1), { name: 'a' });
      for (let i = 0; i < 5; i++) await hvd.barrier(context);
      await turns(5);
      const late = early ?? hvd.allreduce(context, of(2), { name: 'late', op: Sum });
      assert.deepEqual(await late, of(3));
    });
  });

  test('the deadline ends the job everywhere, and the error names who is missing', async () => {
    const gate = new Gate(2);
    await runContexts(3, async (context, rank) => {
      if (rank === 2) {
        await gate.opened;
        assert.equal((await errorOf(hvd.barrier(context))).code, 'ERR_HVD_TIMEOUT');
        return;
      }
      const error = await errorOf(hvd.allreduce(context, of(1), { name: 'x', timeoutMs: 50 }));
      assert.equal(error.code, 'ERR_HVD_TIMEOUT');
      assert.equal(error.rank, 2);
      assert.match(error.message, /allreduce "x", but rank 2 has not arrived/);
      assert.equal((await errorOf(hvd.barrier(context))).message, error.message);
      gate.arrive();
    });
  });

  test('others that come by with something else do not put the deadline off', async () => {
    await runContexts(2, async (context, rank) => {
      const lonely =
        rank === 0 ? errorOf(hvd.allreduce(context, of(1), { name: 'x', timeoutMs: 100 })) : undefined;
      const error = await errorOf(
        (async () => {
          for (;;) {
            await hvd.barrier(context);
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
        })(),
      );
      assert.equal(error.code, 'ERR_HVD_TIMEOUT');
      assert.equal(error.rank, 1);
      assert.match(error.message, /rank 0 waited .* s in .*allreduce "x".* rank 1/);
      await lonely;
    });
  });

  test('ranks that all wait for different things are heard when the deadline has passed', async () => {
    await runContexts(2, async (context, rank) => {
      const error = await errorOf(hvd.allreduce(context, of(1), { name: `only ${rank}`, timeoutMs: 100 }));
      assert.equal(error.code, 'ERR_HVD_TIMEOUT');
    });
  });

  test('stall warnings name the operation and who is missing', async () => {
    const limits = { stallCheck: true, stallWarningMs: 30 };
    const gate = new Gate(2);
    await runContexts(
      3,
      async (context, rank, { log }) => {
        if (rank === 2) await gate.opened;
        const sum = hvd.allreduce(context, of(1), { name: 'grad' });
        if (rank !== 2) await until(() => log.length > 0, 'a warning');
        gate.arrive();
        await sum;
        if (rank === 2) return;
        assert.match(log.join('\n'), /allreduce "grad" has waited 0 s: rank 2 has not called it/);
      },
      { limits },
    );
  });

  test('warnings after an exchange of lists know who has not asked for that very operation', async () => {
    const limits = { stallCheck: true, stallWarningMs: 30 };
    const gate = new Gate(2);
    await runContexts(
      3,
      async (context, rank, { log }) => {
        const early = rank === 1 ? undefined : hvd.allreduce(context, of(1), { name: 'grad' });
        await hvd.barrier(context, { name: 'b' });
        if (rank === 1) await gate.opened;
        else await until(() => log.length > 0, 'a warning');
        gate.arrive();
        await (early ?? hvd.allreduce(context, of(1), { name: 'grad' }));
        if (rank !== 1) assert.match(log.join('\n'), /"grad" has waited 0 s: rank 1 has not called it/);
      },
      { limits },
    );
  });

  test('after the time of stallShutdownMs the job ends', async () => {
    const limits = { stallCheck: true, stallWarningMs: 20, stallShutdownMs: 50 };
    await runContexts(
      2,
      async (context, rank) => {
        if (rank === 1) return;
        const error = await errorOf(hvd.allreduce(context, of(1), { name: 'grad' }));
        assert.equal(error.code, 'ERR_HVD_TIMEOUT');
        assert.equal(error.rank, 1);
        assert.match(error.message, /HOROVOD_STALL_SHUTDOWN_TIME_SECONDS/);
      },
      { limits },
    );
  });
});

describe('an AbortSignal', () => {
  test('that is aborted already refuses the call, and the context goes on', async () => {
    await runContexts(2, async (context) => {
      const error = await errorOf(hvd.allreduce(context, of(1), { signal: AbortSignal.abort('why') }));
      assert.equal(error.code, 'ERR_HVD_ABORTED');
      assert.equal(error.cause, 'why');
      assert.deepEqual(await hvd.allreduce(context, of(1), { op: Sum }), of(2));
    });
  });

  test('in the tick of the call takes the request back', async () => {
    await runContexts(2, async (context) => {
      const controller = new AbortController();
      const promise = hvd.allreduce(context, of(1), { name: 'x', signal: controller.signal });
      controller.abort();
      assert.equal((await errorOf(promise)).code, 'ERR_HVD_ABORTED');
      assert.deepEqual(await hvd.allreduce(context, of(1), { name: 'x', op: Sum }), of(2));
      assert.equal(context.flightRecord().find(({ error }) => error === 'ERR_HVD_ABORTED')?.state, 'failed');
    });
  });

  test('later ends the job on every rank, with the same error', async () => {
    await runContexts(2, async (context, rank) => {
      const controller = new AbortController();
      const waiting =
        rank === 0
          ? hvd.allreduce(context, of(1), { name: 'x', signal: controller.signal })
          : hvd.allreduce(context, of(1), { name: 'y' });
      if (rank === 0) {
        await turns(5);
        controller.abort();
      }
      const error = await errorOf(waiting);
      assert.equal(error.code, 'ERR_HVD_ABORTED');
      assert.equal(error.rank, 0);
      assert.match(error.message, /rank 0: allreduce "x"/);
      assert.equal((await errorOf(hvd.barrier(context))).code, 'ERR_HVD_ABORTED');
    });
  });

  test('that is not aborted leaves no listener behind', async () => {
    await runContexts(2, async (context) => {
      const { signal } = new AbortController();
      let listeners = 0;
      const { addEventListener, removeEventListener } = signal;
      signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
        listeners++;
        addEventListener.apply(signal, args);
      };
      signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
        listeners--;
        removeEventListener.apply(signal, args);
      };
      for (let i = 0; i < 20; i++) await hvd.allreduce(context, of(1), { signal });
      assert.equal(listeners, 0);
    });
  });
});

describe('shutdown', () => {
  test('of one rank ends what others wait for, and names that rank', async () => {
    await runContexts(3, async (context, rank) => {
      await hvd.barrier(context);
      if (rank === 1) {
        const own = hvd.allreduce(context, of(1), { name: 'x' });
        context.close();
        assert.equal((await errorOf(own)).code, 'ERR_HVD_SHUT_DOWN');
        const error = await errorOf(hvd.barrier(context));
        assert.equal(error.code, 'ERR_HVD_SHUT_DOWN');
        assert.match(error.message, /rank 1 has shut down; call init\(\) again/);
      } else {
        const error = await errorOf(hvd.allreduce(context, of(1), { name: 'x' }));
        assert.equal(error.code, 'ERR_HVD_SHUT_DOWN');
        assert.equal(error.rank, 1);
      }
    });
  });
});

describe('Sync forms on a transport where blocking would stop the others', () => {
  test('are refused without a trace, and work when all others have asked', async () => {
    await runContexts(2, async (context, rank) => {
      if (rank === 0) {
        assert.throws(() => hvd.allreduceSync(context, of(1), { op: Sum }), { code: 'ERR_HVD_WOULD_BLOCK' });
        assert.deepEqual(await hvd.allreduce(context, of(1), { op: Sum }), of(3));
        await hvd.barrier(context);
      } else {
        await turns(3);
        assert.deepEqual(hvd.allreduceSync(context, of(2), { op: Sum }), of(3));
        await hvd.barrier(context);
      }
    });
  });
});

describe('a buffer that is transferred while its operation waits', () => {
  const isDetached = (error: HorovodError) => {
    assert.equal(error.code, 'ERR_HVD_DETACHED');
    assert.equal(error.rank, 1);
    assert.match(error.message, /rank 1: a buffer of allreduce "x" was detached/);
  };

  test('in the tick of the call ends the job, and every rank learns why', async () => {
    await runContexts(2, async (context, rank) => {
      const x = new Float32Array(100);
      const sum = hvd.allreduce(context, x, { name: 'x' });
      if (rank === 1) structuredClone(x, { transfer: [x.buffer] });
      isDetached(await errorOf(sum));
    });
  });

  test('later, before others have asked for it, the same', async () => {
    await runContexts(2, async (context, rank) => {
      const x = new Float32Array(100);
      const sum = rank === 1 ? errorOf(hvd.allreduce(context, x, { name: 'x' })) : undefined;
      await hvd.barrier(context, { name: 'a' });
      if (rank === 1) structuredClone(x, { transfer: [x.buffer] });
      const others = (async () => {
        for (;;) await hvd.barrier(context);
      })();
      isDetached(await errorOf(others));
      if (sum !== undefined) isDetached(await sum);
    });
  });
});

describe('prepared allreduce', () => {
  test('runs again and again over the same buffers', async () => {
    await runContexts(2, async (context, rank) => {
      const xs = [of(rank), Int32Array.of(rank + 1)];
      const prepared = await prepareAllreduce(context, xs, { op: Sum });
      for (let i = 0; i < 5; i++) assert.equal(await prepared.run(), xs);
      assert.deepEqual(xs, [of(16), Int32Array.of(48)]);
      prepared.release();
      prepared.release();
      assert.match((await errorOf(prepared.run())).message, /released/);
      assert.throws(() => prepared.runSync(), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    });
  });

  test('several prepared ones may be in flight in any order', async () => {
    await runContexts(2, async (context, rank) => {
      const buffers = [of(1), of(10), of(100)];
      const prepared = await Promise.all(buffers.map((x) => prepareAllreduce(context, x, { op: Sum })));
      const order = rank === 0 ? [0, 1, 2] : [2, 0, 1];
      await Promise.all(order.map((i) => prepared[i]?.run()));
      assert.deepEqual(buffers, [of(2), of(20), of(200)]);
    });
  });

  test('says so when an array was transferred away', async () => {
    await runContexts(2, async (context) => {
      const x = new Float32Array(4);
      const prepared = await prepareAllreduce(context, x);
      structuredClone(x, { transfer: [x.buffer] });
      const error = await errorOf(prepared.run());
      assert.equal(error.code, 'ERR_HVD_DETACHED');
      await hvd.barrier(context);
    });
  });
});

/** Opens when so many have arrived. */
class Gate {
  #open: () => void = () => {};
  #expected: number;
  readonly opened: Promise<void> = new Promise((resolve) => {
    this.#open = resolve;
  });

  constructor(expected: number) {
    this.#expected = expected;
  }

  arrive(): void {
    if (--this.#expected === 0) this.#open();
  }
}
