// The side of npm's tfrecord-stream in bench/data.mjs: reads a task per line, repeats it until its time is over, and prints the
// figures. The argument is the folder of the package. With --javascript it does without the addon for checksums, which npm compiles
// only where it may run the scripts of packages.
import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const load = createRequire(`${process.argv[2]}/lib/record_reader.js`);
if (process.argv[3] === '--javascript') {
  const addon = load.resolve('fast-crc32c/impls/sse4_crc32c');
  load.cache[addon] = { id: addon, filename: addon, loaded: true, exports: {} };
}
const { RecordReader } = load('./record_reader.js');
const isNative = /native code/.test(String(load('fast-crc32c').calculate));

for await (const line of createInterface({ input: process.stdin })) {
  const { task, file, seconds } = JSON.parse(line);
  if (task === 'versions') {
    console.log(JSON.stringify({ checksums: isNative ? 'by its addon' : 'in JavaScript' }));
    continue;
  }
  const total = { records: 0, bytes: 0, seconds: 0 };
  const [start, used] = [performance.now(), process.cpuUsage()];
  while (total.seconds < seconds) {
    const reader = await RecordReader.createFromStream(createReadStream(file));
    // A pass over the whole file would take too long at its speed: the time ends in its middle.
    while (total.seconds < seconds) {
      const record = await reader.readRecord();
      if (record === null) break;
      total.records++;
      total.bytes += record.length;
      if (total.records % 100 === 0) total.seconds = (performance.now() - start) / 1000;
    }
    total.seconds = (performance.now() - start) / 1000;
  }
  const { user, system } = process.cpuUsage(used);
  console.log(JSON.stringify({ ...total, cpuSeconds: (user + system) / 1e6 }));
}
