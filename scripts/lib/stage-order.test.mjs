// In which order stages run, and what is printed when.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runInOrder } from './stage-order.mjs';

const ok = { passed: 1, failed: 0, skipped: 0 };

/** Runs stages and records what happens. A stage ends at once, or when the stage `until` begins. */
async function record(list) {
  const events = [];
  const begun = new Map(
    list.map(({ name }) => {
      const entry = {};
      entry.promise = new Promise((resolve) => {
        entry.resolve = resolve;
      });
      return [name, entry];
    }),
  );
  const chosen = list.map(({ until, result = ok, ...details }) => ({
    plan: {},
    stage: {
      about: 'about it',
      ...details,
      async run({ print }) {
        events.push(`${details.name} begins`);
        begun.get(details.name).resolve();
        print?.(`text of ${details.name}\n`);
        if (until !== undefined) await begun.get(until).promise;
        events.push(`${details.name} ends`);
        return result;
      },
    },
  }));
  const write = (text) => events.push(text.trim().replaceAll('\n', ' | '));
  const results = await runInOrder(chosen, { filter: '', write });
  return { events, names: results.map(({ stage }) => stage.name) };
}

describe('stages', () => {
  test('run one after the other', async () => {
    const { events } = await record([{ name: 'a' }, { name: 'b' }]);
    assert.deepEqual(events, [
      ...['── a: about it', 'a begins', 'a ends'],
      ...['── b: about it', 'b begins', 'b ends'],
    ]);
  });

  test('that are patient run beside the next ones, and print afterwards', async () => {
    const { events, names } = await record([
      { name: 'patient', isPatient: true, until: 'b' },
      { name: 'a' },
      { name: 'b', until: 'patient' },
    ]);
    assert.ok(events.indexOf('a ends') < events.indexOf('patient ends'));
    assert.equal(events.at(-1), '── patient: about it | text of patient');
    assert.deepEqual(names, ['patient', 'a', 'b']);
  });

  test('that are patient run one by one, and as any other where none follows', async () => {
    const both = [
      { name: 'p', isPatient: true },
      { name: 'q', isPatient: true },
    ];
    for (const list of [both, [...both, { name: 'a' }]]) {
      const { events } = await record(list);
      assert.ok(events.indexOf('p ends') < events.indexOf('q begins'), String(events));
    }
    assert.equal((await record(both)).events[0], '── p: about it');
  });

  test('after one that is required and fails do not run', async () => {
    const failed = { passed: 0, failed: 1, skipped: 0 };
    const { names } = await record([{ name: 'build', isRequired: true, result: failed }, { name: 'a' }]);
    assert.deepEqual(names, ['build']);
  });
});
