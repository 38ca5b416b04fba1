import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Advice, adviceOn } from './advice.ts';

const pipeline: Advice = {
  threads: 2,
  interleave: 4,
  memoryMb: 512,
  readerStages: ['read', 'unpack'],
  localStages: ['map(toTensor)'],
};

describe('what to do when training waits for data', () => {
  const cases: [string, Record<string, number>, Partial<Advice>, RegExp][] = [
    [
      'files come slowly',
      { read: 0.97, parse: 0.1 },
      {},
      /^read is the busiest stage \(97 %\).*raise interleave \(4 at/,
    ],
    ['the reader decompresses', { read: 0.1, unpack: 0.9 }, {}, /^unpack is .*without compression/],
    [
      'threads are busy',
      { read: 0.3, parse: 0.2, 'map(augment)': 0.75 },
      {},
      /^map\(augment\) is the busiest stage \(95 %\)\. Raise HOROVOD_DATA_THREADS \(2\)/,
    ],
    [
      'the main thread is',
      { parse: 0.1, 'map(toTensor)': 0.8 },
      {},
      /^map\(toTensor\) .*exported\(module, name\)/,
    ],
    ['there are no threads', { read: 0.2, parse: 0.7 }, { threads: 0 }, /HOROVOD_DATA_THREADS is 0/],
    [
      'nobody is busy',
      { read: 0.3, parse: 0.2 },
      {},
      /raise prefetch\(\), and HOROVOD_DATA_MEMORY_MB \(512\)/,
    ],
    [
      'a part is made slowly',
      { moduleDataset: 0.9 },
      { readerStages: ['read', 'moduleDataset'] },
      /^moduleDataset .* One thread of this rank makes the elements/,
    ],
    ['nobody has said anything', {}, {}, /^no stage has reported yet\.$/],
  ];
  for (const [what, shares, changes, expected] of cases) {
    test(what, () =>
      assert.match(adviceOn(new Map(Object.entries(shares)), { ...pipeline, ...changes }), expected),
    );
  }
});
