// The timeline of ranks on two hosts: one file, written on rank 0's host, with the events of all, by one clock. How exact that clock
// is depends on how busy the machine is; the file says it, and nothing may be further off.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { runOnBox } from '../support/box-jobs.ts';
import { type CheckedEvent, checkTrace } from '../support/check-trace.ts';
import { fixturePath } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const script = fixturePath('timeline/rounds.ts');

describe('a timeline on two hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2 });
  });
  after(() => box.close());

  test('has the tracks of all ranks, by one clock', async (t) => {
    const directory = mkdtempSync(join(box.shared, 'timelines-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const job = await runOnBox(box, script, {
      hosts: 'host1:1,host2:2',
      args: [directory],
      flags: ['--timeline-filename', join(directory, 'by-setting.json')],
    });
    assert.equal(job.exitCode, 0, job.stdout + job.stderr);
    for (const name of ['by-setting', 'all', 'last']) {
      const events = checkTrace(join(directory, `${name}.json`));
      const found = events.filter((event) => event.name === name);
      assert.deepEqual(found.map(({ pid }) => pid).sort(), [1, 2, 3], `${name}.json`);
      const errors = clockErrors(events);
      assert.equal(errors.get(1), 0, 'rank 0 is on the host whose clock it is');
      const errorOf = ({ pid }: CheckedEvent) => errors.get(pid) ?? Number.NaN;
      const earliest = (event: CheckedEvent) => event.ts - errorOf(event);
      const latest = (event: CheckedEvent) => event.ts + (event.dur ?? 0) + errorOf(event);
      assert.ok(
        Math.max(...found.map(earliest)) < Math.min(...found.map(latest)),
        `all were in "${name}" at the same time: ${JSON.stringify(found)}, errors ${JSON.stringify([...errors])}`,
      );
    }
    const hosts = checkTrace(join(directory, 'all.json')).flatMap(
      ({ name, args }) =>
        (name === 'process_name' ? /\((host\d),/.exec(String(args?.['name']))?.[1] : []) ?? [],
    );
    assert.deepEqual(hosts.sort(), ['host1', 'host2', 'host2']);
    await box.assertNothingLeft();
  });
});

/** How far the clock of each process may be off, in microseconds; NaN if the file does not say it. */
function clockErrors(events: readonly CheckedEvent[]): Map<number, number> {
  const processes = events.filter(({ name, pid }) => name === 'process_name' && pid > 0);
  return new Map(
    processes.map(({ pid, args }) => {
      const error = args?.['clock_error_us'];
      return [pid, error === undefined ? 0 : typeof error === 'number' ? error : Number.NaN];
    }),
  );
}
