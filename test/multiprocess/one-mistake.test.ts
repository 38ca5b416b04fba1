// What users read when all ranks make the same mistake: the error once, with the line that they wrote, and a short report.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { FlightDump } from '../../src/observe/flight-recorder/flight-dump.ts';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { sourcePath } from '../support/repository.ts';

for (const [form, line] of [
  ['sync', 23],
  ['promise', 25],
] as const) {
  test(`a mistake of four ranks is printed once, with the line that was written (${form})`, async (t) => {
    const records = mkdtempSync(join(tmpdir(), 'horovod-mistake-'));
    t.after(() => rmSync(records, { recursive: true, force: true }));
    const { exitCode, stderr } = await spawnRanks(4, sourcePath('launch/mistake.ts'), {
      args: [form],
      env: { HOROVOD_FLIGHT_DIR: records },
    });
    assert.equal(exitCode, 1, stderr);
    const lines = stderr.trimEnd().split('\n');
    assert.ok(lines.length <= 20, `${lines.length} lines:\n${stderr}`);
    const said = lines.filter((each) => each.includes('ERR_HVD_MISMATCH: allreduce "bias"'));
    assert.equal(said.length, 2, `once by a rank, and once in the report:\n${stderr}`);
    const frame = new RegExp(`at (async )?step \\(.*mistake\\.ts:${line}:\\d+\\)`);
    assert.match(lines[lines.indexOf(said[0] as string) + 1] ?? '', frame, stderr);
    assert.match(stderr, new RegExp(`First failure:\\n.*\\n.*ERR_HVD_MISMATCH.*\\n {6}${frame.source}`));
    assert.match(stderr, /Other ranks:\n {2}ranks \d, \d, \d exited with code 1, with the same error\n/);
    assert.doesNotMatch(stderr, /undefined/);
    for (const rank of [0, 1, 2, 3]) {
      const dump = JSON.parse(readFileSync(join(records, `rank-${rank}.json`), 'utf8')) as FlightDump;
      const record = dump.records.find(({ name }) => name === 'bias');
      assert.match(record?.callSite ?? '', new RegExp(`^/.*mistake\\.ts:${line}$`), `rank ${rank}`);
    }
  });
}
