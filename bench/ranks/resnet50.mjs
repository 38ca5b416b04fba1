// One rank of the ResNet-50 bench: the 161 gradients in one groupedAllreduceSync against one tensor of the same 102 MB,
// in ordinary arrays and in alloc()ed ones. All four take turns within a round, so that drift hits them alike.
// Prints `{"peer","bytes","us"}` on rank 0. Started by bench/collectives.mjs through horovodrun.
import { openLibrary, readArguments } from './library.mjs';
import { elements, resnet50Shapes } from './resnet50-shapes.mjs';

const WARM_UP_ROUNDS = 3;
const ROUNDS = 15;

const hvd = await openLibrary(readArguments().library);
const options = { op: hvd.Sum, inPlace: true };
const shapes = resnet50Shapes();
const total = shapes.reduce((sum, shape) => sum + elements(shape), 0);
const rank = hvd.rank();
const sumOfRanks = (hvd.size() * (hvd.size() + 1)) / 2;

const ordinary = shapes.map((shape) => hvd.tensor(new Float32Array(elements(shape)), shape));
const allocated = shapes.map((shape) => hvd.alloc(shape));
const one = new Float32Array(total);
const oneAllocated = hvd.alloc(total);

const variants = {
  one: { arrays: [one], run: () => hvd.allreduceSync(one, options) },
  grouped: {
    arrays: ordinary.map((tensor) => tensor.data),
    run: () => hvd.groupedAllreduceSync(ordinary, options),
  },
  'one-alloc': { arrays: [oneAllocated.data], run: () => hvd.allreduceSync(oneAllocated, options) },
  'grouped-alloc': {
    arrays: allocated.map((tensor) => tensor.data),
    run: () => hvd.groupedAllreduceSync(allocated, options),
  },
};

const spent = Object.fromEntries(Object.keys(variants).map((name) => [name, []]));
for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
  for (const [name, { arrays, run }] of Object.entries(variants)) {
    for (const array of arrays) array.fill(rank + 1);
    hvd.barrierSync();
    const start = performance.now();
    run();
    const us = (performance.now() - start) * 1000;
    for (const array of arrays) {
      const last = array[array.length - 1];
      if (array[0] !== sumOfRanks || last !== sumOfRanks)
        throw new Error(`${name}: ${array[0]}, ${last}, not ${sumOfRanks}`);
    }
    if (round >= 0) spent[name].push(us);
  }
}
if (rank === 0) {
  for (const [peer, us] of Object.entries(spent)) {
    const median = us.sort((a, b) => a - b)[us.length >> 1];
    console.log(JSON.stringify({ peer, bytes: total * 4, us: Number(median.toFixed(3)) }));
  }
}
await hvd.shutdown();
