// For tests: what Chrome's Trace Event Format asks of a file, checked event by event.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

export interface CheckedEvent {
  readonly name: string;
  readonly ph: string;
  readonly ts: number;
  readonly dur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly cat?: string;
  readonly s?: string;
  readonly args?: Record<string, unknown>;
}

/** Parses and checks; throws an AssertionError that names the event. */
export function checkTrace(path: string): CheckedEvent[] {
  const events = JSON.parse(readFileSync(path, 'utf8')) as CheckedEvent[];
  assert.ok(Array.isArray(events));
  const named = new Set<string>();
  const open = new Map<string, { end: number; name: string }[]>();
  for (const event of events) {
    const text = JSON.stringify(event);
    assert.equal(typeof event.name, 'string', text);
    for (const field of ['ts', 'pid', 'tid'] as const)
      assert.ok(Number.isFinite(event[field]), `${field}: ${text}`);
    assert.ok(event.ts >= 0, text);
    assert.ok(Number.isInteger(event.pid) && Number.isInteger(event.tid), text);
    const track = `${event.pid}/${event.tid}`;
    if (event.ph === 'M') {
      if (event.name === 'process_name') named.add(String(event.pid));
      if (event.name === 'thread_name') named.add(track);
      assert.equal(typeof event.args, 'object', text);
      continue;
    }
    // Names come before what they name.
    assert.ok(named.has(String(event.pid)) && named.has(track), `no name yet for ${text}`);
    assert.ok(event.ph === 'X' || event.ph === 'i', text);
    if (event.ph === 'i') {
      assert.ok(['g', 'p', 't'].includes(event.s ?? ''), text);
      continue;
    }
    assert.ok((event.dur as number) >= 0, text);
    nest(open, track, event);
  }
  assert.equal(typeof events[0]?.args?.['start_time_since_epoch_in_micros'], 'number');
  return events;
}

/** An outer slice comes before those inside it, and on a track none reaches out of the one around it. */
function nest(open: Map<string, { end: number; name: string }[]>, track: string, event: CheckedEvent): void {
  const rounding = 0.0015;
  const around = open.get(track) ?? [];
  open.set(track, around);
  while (around.length > 0 && (around.at(-1)?.end as number) <= event.ts + rounding) around.pop();
  const end = event.ts + (event.dur as number);
  const outer = around.at(-1);
  assert.ok(
    outer === undefined || end <= outer.end + rounding,
    `${event.name} (${event.ts} … ${end}) reaches out of ${outer?.name} (… ${outer?.end}) on ${track}`,
  );
  around.push({ end, name: event.name });
}
