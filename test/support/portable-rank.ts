// One rank of the portable transport as a process, started by portable-ranks.ts. It joins its "host", runs one of the scenarios
// below, and reports to its parent.

import { ControlBlock } from '../../src/control/control-block.ts';
import { HorovodError } from '../../src/errors.ts';
import { MeshListener } from '../../src/net/mesh/listener.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import { Sum } from '../../src/tensor/reduce-op.ts';
import { runTogether } from '../../src/transport/group/run-together.ts';
import { PortableClusterTransport } from '../../src/transport/portable/portable-cluster-transport.ts';
import { PortableTransport } from '../../src/transport/portable/portable-transport.ts';
import type {
  AllreduceOperation,
  Batch,
  Transport,
  TransportGroup,
  TransportOperation,
} from '../../src/transport/transport.ts';
import { bytes, bytesOf, isClose, values, zeros } from './transport-data.ts';
import { batchOf, round, submit } from './transport-world.ts';

export type Scene = 'compare' | 'twoGroups' | 'waitSync' | 'endlessSync' | 'impatient' | 'endless' | 'stall';

/** From the rank to its parent. */
export type Report =
  | { kind: 'tell'; id: number; text: string }
  | { kind: 'running' }
  | { kind: 'stalled'; missing: number[] }
  | { kind: 'failed'; code: string; blamed?: number; pid?: number; signal?: string; message: string }
  | { kind: 'finished' };

/** From the parent to the rank. */
export type Order = { kind: 'told'; id: number; texts: string[] } | { kind: 'go' };

interface Stage {
  readonly rank: number;
  readonly ranks: number;
  /** Whether members are combined in the order of their index. */
  readonly isInOrder: boolean;
  open(id: number): Promise<TransportGroup>;
  /** Resolves when the parent sends the message. */
  readonly go: Promise<void>;
}

const scenes: Readonly<Record<Scene, (stage: Stage) => Promise<void>>> = {
  async compare(stage) {
    const group = await stage.open(0);
    for (let i = 0; i < 40; i++) {
      const operations = Array.from({ length: stage.ranks }, (_, index) =>
        operationOf(i, index, stage.ranks),
      );
      const own = operationOf(i, stage.rank, stage.ranks);
      const outcome =
        i % 3 === 0 ? await submit(group, batchOf([round(own, i)])) : group.runSync(batchOf([round(own, i)]));
      runTogether(operations);
      const expected = resultOf(operations[stage.rank] as TransportOperation);
      const isSame =
        bytesOf(resultOf(own)).equals(bytesOf(expected)) ||
        (!stage.isInOrder && own.kind === 'allreduce' && isClose(resultOf(own), expected, own, stage.ranks));
      if (outcome !== 'done' || !isSame) throw new Error(`round ${i} (${own.kind}) went wrong: ${outcome}`);
    }
  },

  // Each rank blocks in the group that the other one has only submitted to.
  async twoGroups(stage) {
    const [a, b] = [await stage.open(0), await stage.open(1)];
    const [first, second] = stage.rank === 0 ? [a, b] : [b, a];
    const data = [new Float32Array(200_000).fill(1), new Float32Array(200_000).fill(2)] as const;
    const pending = submit(second, batchOf([round(sum(data[1]))]));
    first.runSync(batchOf([round(sum(data[0]))]));
    await pending;
  },

  async waitSync(stage) {
    const group = await stage.open(0);
    const data = Float32Array.of(stage.rank + 1);
    const batches = [1, 2, 3].map((fingerprint) => batchOf([round(sum(data), fingerprint)]));
    const completed: number[] = [];
    const open = batches.filter((batch, i) => group.submit(batch, () => completed.push(i)) === undefined);
    const last = batches[2] as Batch;
    if (open.includes(last)) group.waitSync(last);
    await new Promise(setImmediate);
    const expected = open.filter((batch) => batch !== last).length;
    if (data[0] !== 12 || completed.length !== expected || completed.includes(2)) {
      throw new Error(`${data[0]}, and callbacks of ${completed.join(', ')}`);
    }
  },

  endlessSync: (stage) => reduceForever(stage, 20_000),
  impatient: (stage) => reduceForever(stage, 1000),

  async endless(stage) {
    const group = await stage.open(0);
    const data = new Float32Array(1 << 18);
    report({ kind: 'running' });
    for (;;) await submit(group, batchOf([round(sum(data))]));
  },

  async stall(stage) {
    const group = await stage.open(0);
    if (stage.rank === 1) await stage.go;
    const onStall = (missing: number[]): void => report({ kind: 'stalled', missing });
    group.runSync(batchOf([round({ kind: 'barrier' })], { stallAfterMs: 50, onStall }));
  },
};

async function reduceForever(stage: Stage, timeoutMs: number): Promise<void> {
  const group = await stage.open(0);
  const batch = batchOf([round(sum(new Float32Array(1 << 18)))], { timeoutMs, label: 'allreduce "grad"' });
  report({ kind: 'running' });
  for (;;) group.runSync(batch);
}

async function play(): Promise<void> {
  const [, , rankText, ranksText, controlPath, scene, hostsText, secretText] = process.argv;
  const [rank, ranks] = [Number(rankText), Number(ranksText)];
  const hosts = JSON.parse(hostsText as string) as number[];
  const control = ControlBlock.open(controlPath as string);
  control.attach(rank);
  const told = new Map<number, (texts: string[]) => void>();
  let start = (): void => {};
  const go = new Promise<void>((resolve) => {
    start = resolve;
  });
  process.on('message', (order: Order) => {
    if (order.kind === 'go') start();
    else told.get(order.id)?.(order.texts);
  });
  const exchangeOf = (id: number) => (text: string) =>
    new Promise<string[]>((resolve) => {
      told.set(id, resolve);
      report({ kind: 'tell', id, text });
    });
  const { transport, close } = await makeTransport(
    control,
    rank,
    hosts,
    secretText as string,
    exchangeOf(-1),
  );
  const members = hosts.map((_, each) => each);
  const open = (id: number): Promise<TransportGroup> =>
    transport.openGroup({ id, members, index: rank, timeoutMs: 20_000, exchange: exchangeOf(id) });
  // With several ranks on several hosts, the ranks of each host are combined first.
  const isInOrder = [1, ranks].includes(new Set(hosts).size);
  try {
    await scenes[scene as Scene]({ rank, ranks, isInOrder, open, go });
    report({ kind: 'finished' });
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    const { code, message, rank: blamed, pid, signal } = error;
    report({
      kind: 'failed',
      code,
      message,
      ...(blamed === undefined ? {} : { blamed }),
      ...(pid === undefined ? {} : { pid }),
      ...(signal === undefined ? {} : { signal }),
    });
  } finally {
    transport.close();
    close();
    control.leave(rank);
    control.close();
    process.disconnect();
  }
}

async function makeTransport(
  control: ControlBlock,
  rank: number,
  hosts: readonly number[],
  secretText: string,
  exchange: (text: string) => Promise<string[]>,
): Promise<{ transport: Transport; close(): void }> {
  if (new Set(hosts).size === 1) return { transport: new PortableTransport(control, { rank }), close() {} };
  const secret = JobSecret.fromHex(secretText) as JobSecret;
  const listener = await MeshListener.open({ secret, jobId: 'ranks of a test', rank });
  const texts = await exchange(JSON.stringify(listener.candidates));
  const transport = new PortableClusterTransport(control, {
    rank,
    localSize: hosts.length,
    listener,
    candidates: new Map(texts.map((text, each) => [each, JSON.parse(text) as string[]])),
    hosts: new Map(hosts.entries()),
    hostnames: new Map(hosts.map((host, each) => [each, `host${host}`])),
    generation: 'first',
    hierarchicalAllreduce: true,
    hierarchicalAllgather: true,
    isEncrypted: false,
  });
  return { transport, close: () => listener.close() };
}

function report(message: Report): void {
  process.send?.(message);
}

function sum(data: Float32Array): AllreduceOperation {
  const arrays = { inputs: [data], outputs: [data] };
  return { kind: 'allreduce', dtype: 'float32', op: Sum, ...arrays, prescale: 1, postscale: 1 };
}

function operationOf(i: number, index: number, ranks: number): TransportOperation {
  const size = [3, 400, 9000, 70_001, 300_000][i % 5] as number;
  if (i % 4 === 0) return { kind: 'allgather', input: bytes(size + index, index + i) };
  if (i % 4 === 1)
    return { kind: 'broadcast', root: i % ranks, input: bytes(size, index), output: bytes(size, 99) };
  const input = values('float32', size, index + i);
  const scales = { prescale: i % 4 === 2 ? 1 : 0.5, postscale: 1 / ranks };
  const arrays = { inputs: [input], outputs: [zeros('float32', size)] };
  return { kind: 'allreduce', dtype: 'float32', op: Sum, ...arrays, ...scales };
}

function resultOf(operation: TransportOperation): Uint8Array | Float32Array {
  if (operation.kind === 'allreduce') return operation.outputs[0] as Float32Array;
  if (operation.kind === 'allgather' || operation.kind === 'broadcast') return operation.output as Uint8Array;
  throw new Error(operation.kind);
}

await play();
