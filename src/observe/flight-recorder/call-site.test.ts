import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallSites, callSiteFinder, writtenLine } from './call-site.ts';

describe('a call site', () => {
  test('is file and line of the first frame outside of the package', () => {
    const find = callSiteFinder('file:///of/nobody/');
    assert.match(find() ?? '', /call-site\.test\.(js|ts):\d+:\d+$/);
  });

  test('is nothing where all frames are the package or Node', () => {
    assert.equal(callSiteFinder()(), undefined);
  });

  test('leaves the making of stacks as it was', () => {
    const { stackTraceLimit, prepareStackTrace } = Error;
    callSiteFinder()();
    assert.deepEqual([Error.stackTraceLimit, Error.prepareStackTrace], [stackTraceLimit, prepareStackTrace]);
    assert.match(new Error('still text').stack ?? '', /still text\n {4}at /);
  });

  test('is looked for once for a name, and again after a rest', () => {
    let looks = 0;
    const sites = new CallSites(() => `train.mjs:${++looks}`);
    assert.equal(sites.of('grad', 100), 'train.mjs:1');
    assert.equal(sites.of('grad', 100.5), 'train.mjs:1');
    assert.equal(sites.of('loss', 100.5), 'train.mjs:2', 'a new name');
    assert.equal(sites.of(undefined, 100.6), undefined, 'no name, and no rest');
    assert.equal(sites.of(undefined, 200), 'train.mjs:3');
    assert.equal(sites.of('grad', 300), 'train.mjs:4');
  });

  test('is shown without its column, and with the path of a URL', () => {
    assert.equal(writtenLine('/home/me/train.mjs:7:3'), '/home/me/train.mjs:7');
    assert.equal(writtenLine('file:///home/me/a%20b/train.mjs:7:3'), '/home/me/a b/train.mjs:7');
    assert.equal(writtenLine('hvd.run'), 'hvd.run');
  });

  test('that cannot be found is no error', () => {
    const sites = new CallSites(() => {
      throw new Error('somebody else makes the stacks here');
    });
    assert.equal(sites.of('grad', 1), undefined);
  });
});
