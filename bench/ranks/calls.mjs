// One rank of the topic `calls` of bench:collectives: every collective as users call it, with a name, scales, a new result or
// a promise. The protocol is that of collectives.mjs. Prints one JSON line a size and variant on rank 0.
//
// Usage: calls.mjs --variants allreduce,broadcast --sizes 4,1024 [--library PATH] [--unwatched]
import { openLibrary, readArguments, unwatch } from './library.mjs';

const TOUCHED_FROM = 16_384;
const WARM_UP_CALLS = 5_000;
const GROUPED = 16;

const { variants, sizes, library, unwatched } = readArguments();
const hvd = await openLibrary(library);
if (unwatched) await unwatch(library);
const rank = hvd.rank();
const size = hvd.size();
const sumOfRanks = (size * (size + 1)) / 2;
const { Sum, Average, Max } = hvd;

const inPlace = { op: Sum, inPlace: true };
const named = { op: Sum, inPlace: true, name: 'layer1/kernel' };
const scaled = { op: Sum, inPlace: true, name: 'layer2/kernel', prescaleFactor: 0.5, postscaleFactor: 2 };
const average = { op: Average };
const largest = { op: Max, inPlace: true };
const bcast = { inPlace: true, name: 'layer3/kernel' };
const sum = { op: Sum };
const grouped = { op: Sum, inPlace: true, name: 'layers' };
const object = { step: 17, loss: 0.25, name: 'mnist' };

// Each variant has its own loop, so that every call site is compiled for one callee. `check`: the first element afterwards.
// The options: `isGroup`: the size is that of each of 16 tensors; `hasNoSize`: measured once, at the first size.
const own = rank + 1;
const VARIANTS = {
  allreduce: {
    sync: (x) => hvd.allreduceSync(x, inPlace),
    soon: (x) => hvd.allreduce(x, inPlace),
    check: sumOfRanks,
  },
  'allreduce-named': {
    sync: (x) => hvd.allreduceSync(x, named),
    soon: (x) => hvd.allreduce(x, named),
    check: sumOfRanks,
  },
  'allreduce-scaled': {
    sync: (x) => hvd.allreduceSync(x, scaled),
    soon: (x) => hvd.allreduce(x, scaled),
    check: sumOfRanks,
  },
  'allreduce-max': {
    sync: (x) => hvd.allreduceSync(x, largest),
    soon: (x) => hvd.allreduce(x, largest),
    check: size,
  },
  'allreduce-new': {
    sync: (x) => hvd.allreduceSync(x, average),
    soon: (x) => hvd.allreduce(x, average),
    check: sumOfRanks / size,
  },
  broadcast: {
    sync: (x) => hvd.broadcastSync(x, 0, bcast),
    soon: (x) => hvd.broadcast(x, 0, bcast),
    check: 1,
  },
  'broadcast-new': { sync: (x) => hvd.broadcastSync(x, 0), soon: (x) => hvd.broadcast(x, 0), check: 1 },
  allgather: { sync: (x) => hvd.allgatherSync(x), soon: (x) => hvd.allgather(x), check: 1 },
  reducescatter: {
    sync: (x) => hvd.reducescatterSync(x, sum),
    soon: (x) => hvd.reducescatter(x, sum),
    check: sumOfRanks,
    atLeast: size,
  },
  alltoall: {
    sync: (x) => hvd.alltoallSync(x),
    soon: (x) => hvd.alltoall(x),
    check: 1,
    atLeast: size,
    first: (y) => y.output[0],
  },
  barrier: { sync: () => hvd.barrierSync(), soon: () => hvd.barrier(), hasNoSize: true },
  grouped: {
    sync: (xs) => hvd.groupedAllreduceSync(xs, grouped),
    soon: (xs) => hvd.groupedAllreduce(xs, grouped),
    check: sumOfRanks,
    isGroup: true,
    first: ([y]) => y[0],
  },
  'grouped-new': {
    sync: (xs) => hvd.groupedAllreduceSync(xs, sum),
    soon: (xs) => hvd.groupedAllreduce(xs, sum),
    check: sumOfRanks,
    isGroup: true,
    first: ([y]) => y[0],
  },
  broadcastObject: {
    sync: () => hvd.broadcastObjectSync(object, 0),
    soon: () => hvd.broadcastObject(object, 0),
    check: 17,
    hasNoSize: true,
    first: (y) => y.step,
  },
  allgatherObject: {
    sync: () => hvd.allgatherObjectSync(object),
    soon: () => hvd.allgatherObject(object),
    check: 17,
    hasNoSize: true,
    first: (ys) => ys[size - 1].step,
  },
};

/** A function of its own for every series: one shared by all would be compiled for none of them. */
function loopOf(call, isPromise) {
  const kind = isPromise
    ? 'async (times) => { for (let k = 0; k < times; k++) await call(x); }'
    : '(times) => { for (let k = 0; k < times; k++) call(x); }';
  return new Function('call', 'x', `return ${kind};`).bind(undefined, call);
}

for (const series of variants) {
  const isPromise = series.endsWith('-await');
  const isAllocated = series.endsWith('-alloc');
  const variant = VARIANTS[series.replace(/-(await|alloc)$/, '')];
  const call = isPromise ? variant.soon : variant.sync;
  const make = loopOf(call, isPromise);
  await make(buffersOf(variant, sizes[0], isAllocated).x)(WARM_UP_CALLS);
  for (const bytes of variant.hasNoSize ? sizes.slice(0, 1) : sizes) {
    const us = await measure(series, variant, call, make, bytes, isAllocated);
    if (rank === 0) console.log(JSON.stringify({ peer: series, bytes, us: Number(us.toFixed(3)) }));
  }
}
await hvd.shutdown();

function buffersOf({ isGroup, atLeast = 1 }, bytes, isAllocated) {
  const make = () => {
    const length = Math.max(bytes / 4, atLeast);
    return isAllocated ? hvd.alloc(length).data : new Float32Array(length);
  };
  if (!isGroup) {
    const x = make();
    return { x, all: [x] };
  }
  const x = Array.from({ length: GROUPED }, make);
  return { x, all: x };
}

async function measure(series, variant, call, make, bytes, isAllocated) {
  const { x, all } = buffersOf(variant, bytes, isAllocated);
  const touched = bytes >= TOUCHED_FROM;
  const times = touched ? 1 : 200;
  const rounds = bytes >= 64 << 20 ? 7 : bytes >= 1 << 20 ? 30 : 101;
  for (const data of all) data.fill(own);
  const first = variant.first ?? ((y) => y?.[0]);
  const got = first(await call(x));
  if (variant.check !== undefined && got !== undefined && got !== variant.check)
    throw new Error(`${series}, ${bytes} bytes: element 0 is ${got}, not ${variant.check}`);
  const loop = make(x);
  const us = [];
  for (let round = -3; round < rounds; round++) {
    for (const data of all) data.fill(touched ? own : 0);
    hvd.barrierSync();
    const start = performance.now();
    const pending = loop(times);
    if (pending !== undefined) await pending;
    const spent = ((performance.now() - start) * 1000) / times;
    if (round >= 0) us.push(spent);
  }
  return us.sort((a, b) => a - b)[us.length >> 1];
}
