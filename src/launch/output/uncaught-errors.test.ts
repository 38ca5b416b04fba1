import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { ConsoleWriter } from './console-writer.ts';
import { RankOutput } from './rank-output.ts';
import { UncaughtErrorFilter, UncaughtErrors } from './uncaught-errors.ts';

const dump = (message: string) => `/home/me/train.ts:6
    throw new Error('${message}');
          ^

Error: ${message}
    at train (/home/me/train.ts:6:11)
    at <anonymous> (/home/me/train.ts:9:1) {
  code: 7
}

Node.js v20.20.2
`;

function filtered(filter: UncaughtErrorFilter, ...pieces: string[]): string {
  const parts = pieces.map((piece) => filter.push(Buffer.from(piece)));
  return Buffer.concat([...parts, filter.flush()]).toString();
}

describe('uncaught errors', () => {
  test('are printed by the first rank, and remembered for the report', () => {
    const errors = new UncaughtErrors();
    const filters = [0, 1, 2].map((rank) => new UncaughtErrorFilter(rank, errors));
    const [first, second, third] = filters as [UncaughtErrorFilter, UncaughtErrorFilter, UncaughtErrorFilter];
    assert.equal(filtered(first, `before\n${dump('no data')}`), `before\n${dump('no data')}`);
    assert.equal(filtered(second, `before\n${dump('no data')}after\n`), 'before\nafter\n');
    assert.equal(filtered(third, dump('another')), dump('another'));
    const lines = ['Error: no data', '    at train (/home/me/train.ts:6:11)'];
    const stack = [...lines, '    at <anonymous> (/home/me/train.ts:9:1) {', '  code: 7', '}'];
    assert.deepEqual(first.found, { lines, stack, sameAs: undefined });
    assert.deepEqual(second.found, { lines, stack, sameAs: 0 });
    assert.equal(third.found?.sameAs, undefined);
  });

  test('are the same if ranks only name themselves in them', () => {
    const errors = new UncaughtErrors();
    const of = (rank: number) =>
      filtered(
        new UncaughtErrorFilter(rank, errors),
        dump(`rank ${rank}: rank 5 (pid ${rank + 10}) is late`),
      );
    assert.notEqual(of(2), '');
    assert.equal(of(3), '');
    // The frames of Node depend on what it was doing.
    const inNode = dump('no data').replace(
      ' {\n',
      '\n    at process.nextTicks (node:internal/process:95:5) {\n',
    );
    assert.notEqual(filtered(new UncaughtErrorFilter(0, errors), dump('no data')), '');
    assert.equal(filtered(new UncaughtErrorFilter(1, errors), inNode), '');
    // All name the same ranks, themselves included.
    const shared = dump('rank 0 has shape [8], but rank 2 has shape [7]');
    const shown = [1, 2, 0].map((rank) => filtered(new UncaughtErrorFilter(rank, errors), shared));
    assert.deepEqual(shown, [shared, '', '']);
  });

  test('are found however the output is cut', () => {
    const errors = new UncaughtErrors();
    filtered(new UncaughtErrorFilter(0, errors), dump('no data'));
    const text = `progress 10%\rprogress 20%\nseen at 12:30\nat 5:7\n${dump('no data')}the end`;
    for (let cut = 1; cut < text.length; cut++) {
      const filter = new UncaughtErrorFilter(1, errors);
      const out = filtered(filter, text.slice(0, cut), text.slice(cut));
      assert.equal(out, 'progress 10%\rprogress 20%\nseen at 12:30\nat 5:7\nthe end', `cut at ${cut}`);
    }
  });

  test('nothing else is held back for long, changed or left out', () => {
    const filter = new UncaughtErrorFilter(1, new UncaughtErrors());
    assert.equal(filter.push(Buffer.from('loss 0.5\n')).toString(), 'loss 0.5\n');
    assert.equal(filter.push(Buffer.from('10 %')).toString(), '10 %');
    assert.equal(filter.push(Buffer.from('\r20 %\nhttp://localhost:8080\n')).toString(), '\r20 %\n');
    assert.ok(filter.isHolding);
    const lines = 'a\nb\n';
    assert.equal(filter.push(Buffer.from(lines)).toString(), `http://localhost:8080\n${lines}`);
    const bytes = Buffer.from([0xff, 0x0a, 0xc3]);
    assert.deepEqual(Buffer.concat([filter.push(bytes), filter.flush()]), bytes);
  });

  test('a place inside of this package is left out', () => {
    const filter = new UncaughtErrorFilter(0, new UncaughtErrors(), 'file:///home/me/horovod/dist/');
    const text = dump('no data').replace('/home/me/train.ts:6', 'file:///home/me/horovod/dist/x.js:6');
    assert.match(filtered(filter, text), /^Error: no data\n {4}at train/);
    assert.equal(filter.found?.lines[0], 'Error: no data');
  });

  test('what looked like one comes out when nothing follows', async () => {
    const source = new PassThrough();
    const target = new PassThrough();
    const options = { rank: 0, name: 'stderr', prefix: 'none', size: 2, notice: () => undefined } as const;
    const console = new ConsoleWriter(target, () => undefined);
    const output = new RankOutput(source, console, { ...options, errors: new UncaughtErrors() });
    source.write('listening at localhost:8080\n');
    const [first] = (await target.take(1).toArray()) as [Buffer];
    assert.equal(String(first), 'listening at localhost:8080\n');
    source.end();
    await output.finished;
  });

  test('are in the tail and in the file of a rank all the same', async () => {
    const errors = new UncaughtErrors();
    const shown = new PassThrough();
    const options = { rank: 1, name: 'stderr', prefix: 'rank', size: 2, notice: () => undefined } as const;
    filtered(new UncaughtErrorFilter(0, errors), dump('no data'));
    const source = Readable.from([Buffer.from(`before\n${dump('no data')}`)]);
    const output = new RankOutput(source, new ConsoleWriter(shown, () => undefined), { ...options, errors });
    await output.finished;
    assert.equal(String(shown.read()), '[1]<stderr>:before\n');
    assert.ok(output.tail.includes('Error: no data'));
    assert.equal(output.uncaught?.sameAs, 0);
  });
});
