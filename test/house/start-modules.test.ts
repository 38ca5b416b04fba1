// What a job loads at its start. Modules are a large part of the time that starting takes: horovodrun and the ranks load what only some
// jobs need (other hosts, timelines, autotune, memory of one process), and what only watches, later or not at all. Compiled code is looked
// at, because there are no types in it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { repository } from '../support/repository.ts';

const dist = join(repository, 'dist');
const staticImport = /^(?:(?:import|export)\b[^;'"\n]*\bfrom |import )['"]([^'"\n]+)['"];$/gm;

/** Paths below dist/, and names of modules of Node. */
function loadedBy(entry: string): string[] {
  const found = new Set<string>();
  const visit = (path: string) => {
    const name = relative(dist, path);
    if (found.has(name)) return;
    found.add(name);
    for (const [, target = ''] of readFileSync(path, 'utf8').matchAll(staticImport)) {
      if (target.startsWith('.')) visit(join(dirname(path), target));
      else found.add(target);
    }
  };
  visit(join(dist, entry));
  return [...found];
}

for (const { what, entry, most, later } of [
  {
    what: 'horovodrun',
    entry: 'launch/main.js',
    // 92 when this was written.
    most: 105,
    later:
      /^(observe\/(hosts|timeline|dashboard)|files\/(?!location)|launch\/(agent|elastic|mpirun|notebook))\/|node:dns/,
  },
  {
    what: 'a rank',
    entry: 'index.js',
    // 196 when this was written.
    most: 215,
    later:
      /^(observe\/(hosts|dashboard)\/|transport\/(memory|portable|hierarchical|shm)\/|files\/|launch\/(?!run\/run\.js)|observe\/timeline\/(recorder|collector)|engine\/autotune\/(?!tuned)|elastic\/run-|node:(child_process|worker_threads|dns))/,
  },
]) {
  describe(`${what} loads at its start`, () => {
    const loaded = loadedBy(entry);
    test('nothing that only some jobs need', () => {
      assert.deepEqual(
        loaded.filter((path) => later.test(path)),
        [],
      );
    });

    test(`at most ${most} modules`, () => {
      const own = loaded.filter((path) => path.endsWith('.js'));
      assert.ok(own.length > 50 && own.length <= most, `${own.length} modules:\n${own.join('\n')}`);
    });
  });
}
