import assert from 'node:assert/strict';
import { writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ControlBlock, controlLayout } from './control-block.ts';
import { statusPageLayout } from './status-page.ts';

function withBlock(body: (block: ControlBlock, pageAt: number) => void): void {
  const block = ControlBlock.create(2);
  try {
    // One page for the job, one for each rank, then those of status.
    body(block, 3 * controlLayout.pageBytes);
  } finally {
    block.close();
  }
}

function overwrite(block: ControlBlock, at: number, bytes: readonly number[]): void {
  writeSync(block.fd, Buffer.from(bytes), 0, bytes.length, at);
}

describe('a status page', () => {
  test('is read as it was written, by its rank alone', () => {
    withBlock((block) => {
      block.writeStatus(0, 1, Buffer.from('first'));
      block.writeStatus(0, 2, Buffer.from('zweite Seite: ä'));
      assert.deepEqual(block.readStatus(0), { sequence: 2, text: 'zweite Seite: ä' });
      assert.equal(block.readStatus(1), undefined);
      assert.equal(block.state(0), 'absent', 'the page of control is another one');
    });
  });

  test('has room for exactly as much as the layout says', () => {
    withBlock((block) => {
      const full = Buffer.alloc(controlLayout.statusBytes, 'x');
      block.writeStatus(1, 1, full);
      assert.equal(block.readStatus(1)?.text.length, controlLayout.statusBytes);
      assert.throws(() => block.writeStatus(1, 2, Buffer.alloc(controlLayout.statusBytes + 1)), RangeError);
    });
  });

  test('that is torn, or garbage, is no page', () => {
    const { sequence, textBytes, checksum, text } = statusPageLayout;
    const damages: [string, number, number[]][] = [
      ['a new text behind an old head', text, [0x7a]],
      ['a new head before an old text', sequence, [9]],
      ['a length beyond the page', textBytes, [0xff, 0xff, 0xff, 0xff]],
      ['a wrong checksum', checksum, [1, 2, 3, 4]],
      ['a sequence that was never given', sequence, [0, 0, 0, 0]],
    ];
    for (const [what, at, bytes] of damages) {
      withBlock((block, pageAt) => {
        block.writeStatus(0, 1, Buffer.from('hello'));
        overwrite(block, pageAt + at, bytes);
        assert.equal(block.readStatus(0), undefined, what);
      });
    }
  });

  test('of a block that can only be read is read, and a write to it fails', () => {
    withBlock((block) => {
      block.writeStatus(0, 1, Buffer.from('hello'));
      const reader = ControlBlock.open(block.path, { access: 'read' });
      try {
        assert.equal(reader.readStatus(0)?.text, 'hello');
        assert.throws(() => reader.writeStatus(0, 2, Buffer.from('x')), { code: 'EBADF' });
      } finally {
        reader.close();
      }
    });
  });

  test('is whole or nothing while somebody writes it over and over', async () => {
    const block = ControlBlock.create(1);
    const writer = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads');
      (async () => {
        const { ControlBlock } = await import(workerData.module);
        const block = ControlBlock.open(workerData.path);
        parentPort.postMessage('writing');
        for (let i = 1; Atomics.load(new Int32Array(workerData.stop), 0) === 0; i++)
          block.writeStatus(0, i, Buffer.alloc(100 + (i % 3000), String(i % 10)));
        block.close();
      })();`,
      {
        eval: true,
        workerData: {
          module: new URL('./control-block.js', import.meta.url).href,
          path: block.path,
          stop: new SharedArrayBuffer(4),
        },
      },
    );
    await new Promise((resolve) => writer.once('message', resolve));
    const sequences = new Set<number>();
    for (let look = 0; look < 5000; look++) {
      const page = block.readStatus(0);
      if (page === undefined) continue;
      sequences.add(page.sequence);
      const { sequence, text } = page;
      assert.equal(text, String(sequence % 10).repeat(100 + (sequence % 3000)));
    }
    await writer.terminate();
    block.close();
    assert.ok(sequences.size > 0, 'no look found a page');
  });
});
