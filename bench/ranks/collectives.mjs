// One rank of the allreduce bench: the same protocol as peers/mpi-allreduce.c, in JavaScript. Prints one JSON line a size
// and variant on rank 0, `{"peer","bytes","us"}`. Started by bench/collectives.mjs through horovodrun.
//
// Usage: collectives.mjs --variants horovod,prepared --sizes 4,1024 [--library PATH]
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openLibrary, readArguments } from './library.mjs';

const TOUCHED_FROM = 16_384;
const WARM_UP_CALLS = 20_000;

const { variants, sizes, library } = readArguments();
const hvd = await openLibrary(library);
const collectGarbage = garbageCollector();
const options = { op: hvd.Sum, inPlace: true };

// What one operation is, by variant. Each has its own loop, so that every call site is compiled for one callee.
const VARIANTS = {
  horovod: {
    make: ordinary,
    start:
      ({ x }) =>
      (times) => {
        for (let k = 0; k < times; k++) hvd.allreduceSync(x, options);
      },
  },
  prepared: {
    make: ordinary,
    start: async ({ x }) => {
      const prepared = await hvd.prepareAllreduce([x], options);
      const loop = (times) => {
        for (let k = 0; k < times; k++) prepared.runSync();
      };
      return Object.assign(loop, { release: () => prepared.release() });
    },
  },
  alloc: {
    make: allocated,
    start:
      ({ x }) =>
      (times) => {
        for (let k = 0; k < times; k++) hvd.allreduceSync(x, options);
      },
  },
  await: {
    make: ordinary,
    start:
      ({ x }) =>
      async (times) => {
        for (let k = 0; k < times; k++) await hvd.allreduce(x, options);
      },
  },
  fp16: {
    make: ordinary,
    start: ({ x }) => {
      const compressed = { ...options, compression: hvd.Compression.fp16 };
      return (times) => {
        for (let k = 0; k < times; k++) hvd.allreduceSync(x, compressed);
      };
    },
  },
  // The result of alloc()ed tensors partly sits in the other core's cache: these two also count one full read of it.
  read: { make: ordinary, start: reduceAndRead },
  'alloc-read': { make: allocated, start: reduceAndRead },
};

function ordinary(length) {
  const data = new Float32Array(length);
  return { x: data, data };
}

function allocated(length) {
  const x = hvd.alloc(length);
  return { x, data: x.data };
}

function reduceAndRead({ x, data }) {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return (times) => {
    for (let k = 0; k < times; k++) {
      hvd.allreduceSync(x, options);
      // A search for a byte that is not there (small whole numbers have no 0xff) is memchr: a read at full speed.
      if (bytes.indexOf(0xff) !== -1) throw new Error('a byte 0xff in a sum of small whole numbers');
    }
  };
}

const rank = hvd.rank();
const size = hvd.size();
const sumOfRanks = (size * (size + 1)) / 2;

for (const name of variants) await warmUp(VARIANTS[name]);
for (const bytes of sizes) {
  for (const name of variants) {
    const us = await measure(VARIANTS[name], name, bytes);
    if (rank === 0) console.log(JSON.stringify({ peer: name, bytes, us: Number(us.toFixed(3)) }));
    // Between figures, so that no collection falls into one and large buffers do not pile up.
    collectGarbage();
  }
}
await hvd.shutdown();

/** The compiler needs thousands of calls, and promise forms more than blocking ones; the C peers need none. */
async function warmUp(variant) {
  const buffer = variant.make(1);
  buffer.data.fill(0);
  const loop = await variant.start(buffer);
  hvd.barrierSync();
  await loop(WARM_UP_CALLS);
  await loop.release?.();
}

async function measure(variant, name, bytes) {
  const touched = bytes >= TOUCHED_FROM;
  const times = touched ? 1 : 200;
  const rounds = bytes >= 64 << 20 ? 7 : bytes >= 1 << 20 ? 30 : 101;
  const buffer = variant.make(bytes / 4);
  const { data } = buffer;
  const loop = await variant.start(buffer);
  data.fill(rank + 1);
  await loop(1);
  for (const at of [0, data.length >> 1, data.length - 1]) {
    if (data[at] === sumOfRanks) continue;
    throw new Error(`${name}, ${bytes} bytes: element ${at} is ${data[at]}, not ${sumOfRanks}`);
  }
  const us = [];
  for (let round = -3; round < rounds; round++) {
    // Untouched buffers are zeros: a sum repeated in place would soon reach infinity.
    data.fill(touched ? rank + 1 : 0);
    hvd.barrierSync();
    const start = performance.now();
    const pending = loop(times);
    // No await for the Sync forms: even of a plain value it costs a turn of the microtask queue.
    if (pending !== undefined) await pending;
    const spent = ((performance.now() - start) * 1000) / times;
    if (round >= 0) us.push(spent);
  }
  await loop.release?.();
  return us.sort((a, b) => a - b)[us.length >> 1];
}

/** The flag cannot be given on the command line: horovodrun starts the script. */
function garbageCollector() {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}
