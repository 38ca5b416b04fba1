import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { logLines } from '../../../../test/support/dashboard-states.ts';
import type { LogLine, LogPage } from '../messages.ts';
import { LogSource } from './log-source.ts';

const lines = logLines({ ranks: 4, samples: 0 }, 1000);
const all = { rank: undefined, search: '', errorsOnly: false };
const ids = (found: readonly LogLine[]) => found.map(({ id }) => id);

/** As the server answers, from these lines. */
function serverOf(kept: readonly LogLine[], asked: string[]): (url: string) => Promise<LogPage> {
  return async (url) => {
    asked.push(url);
    const query = new URL(url, 'http://dashboard/').searchParams;
    const before = Number(query.get('before') ?? Number.POSITIVE_INFINITY);
    const found = kept.filter(({ id, text }) => id < before && text.includes(query.get('search') ?? ''));
    const limit = Math.min(100, Number(query.get('limit')));
    return { lines: found.slice(-limit), hasMore: found.length > limit };
  };
}

describe('older lines', () => {
  test('come from memory as long as there are enough', async () => {
    const asked: string[] = [];
    const source = new LogSource(true, serverOf(lines, asked));
    const found = await source.before(900, all, lines.slice(500), 10);
    assert.deepEqual(ids(found.lines), ids(lines.slice(889, 899)));
    assert.deepEqual([found.hasMore, asked], [true, []]);
  });

  test('then from the server, which is asked for those before the oldest in memory', async () => {
    const asked: string[] = [];
    const source = new LogSource(true, serverOf(lines, asked));
    const found = await source.before(505, all, lines.slice(500), 10);
    assert.deepEqual(ids(found.lines), ids(lines.slice(490, 504)));
    assert.deepEqual(asked, ['logs?limit=10&before=501']);
    const older = await source.before(found.lines[0]?.id, all, lines.slice(500), 10);
    assert.deepEqual(ids(older.lines), ids(lines.slice(480, 490)));
  });

  test('end where the server has no more', async () => {
    const source = new LogSource(true, serverOf(lines, []));
    const found = await source.before(4, all, [], 10);
    assert.deepEqual([ids(found.lines), found.hasMore], [[1, 2, 3], false]);
  });

  test('errors are looked for in several pages, but not without end', async () => {
    const withErrors = lines.map((line) =>
      line.id === 930 || line.id === 20 ? { ...line, text: 'Error: no' } : line,
    );
    const asked: string[] = [];
    const source = new LogSource(true, serverOf(withErrors, asked));
    const found = await source.before(1001, { ...all, errorsOnly: true }, [], 50);
    assert.deepEqual([ids(found.lines), found.hasMore, asked.length], [[930], true, 5]);
    const further = await source.before(found.oldestId, { ...all, errorsOnly: true }, [], 50);
    assert.deepEqual(ids(further.lines), [20]);
  });

  test('a server that does not answer is told about, and may be asked again', async () => {
    const source = new LogSource(true, () => Promise.reject(new Error('connection refused')));
    const found = await source.before(900, all, lines.slice(895), 10);
    assert.deepEqual(ids(found.lines), [896, 897, 898, 899]);
    assert.equal(found.hasMore, true);
    assert.match(found.problem ?? '', /connection refused/);
  });

  test('a saved page has what it has', async () => {
    const source = new LogSource(false, () => assert.fail('there is no server'));
    const found = await source.before(6, all, lines, 10);
    assert.deepEqual([ids(found.lines), found.hasMore], [[1, 2, 3, 4, 5], false]);
    assert.equal(source.download(0), undefined);
  });

  test('files to download are those of the ranks and the launcher', () => {
    const source = new LogSource(true);
    assert.deepEqual([source.download(3), source.download(-1)], ['logs/3.txt', 'logs/launcher.txt']);
  });
});
