// For tests: checks that a file follows Chrome's Trace Event Format, event by event.

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

/** Parses and checks a trace. Throws an AssertionError that names the event. */
export function checkTrace(path: string): CheckedEvent[] {
  const events = JSON.parse(readFileSync(path, 'utf8')) as CheckedEvent[];
  assert.ok(Array.isArray(events));
  const named = new Set<string>();
  const slices = new Map<string, CheckedEvent[]>();
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
    // Names of processes and threads come before their events.
    assert.ok(named.has(String(event.pid)) && named.has(track), `no name yet for ${text}`);
    assert.ok(event.ph === 'X' || event.ph === 'i', text);
    if (event.ph === 'i') {
      assert.ok(['g', 'p', 't'].includes(event.s ?? ''), text);
      continue;
    }
    assert.ok((event.dur as number) > 0, text);
    for (const us of [event.ts, event.dur as number])
      assert.equal(us, Math.round(us * 1000) / 1000, `not whole nanoseconds: ${text}`);
    const known = slices.get(track);
    if (known === undefined) slices.set(track, [event]);
    else known.push(event);
  }
  for (const [track, all] of slices) replay(track, all);
  assert.equal(typeof events[0]?.args?.['start_time_since_epoch_in_micros'], 'number');
  return events;
}

/**
 * Replays the slices of a track as strict readers do (speedscope): each becomes a begin and an end, sorted by time; at the
 * same time ends come first. An end that is not that of the innermost open slice is an error.
 */
function replay(track: string, slices: readonly CheckedEvent[]): void {
  const endOf = ({ ts, dur }: CheckedEvent) => ts + (dur as number);
  const begins = [...slices].sort((a, b) => a.ts - b.ts);
  const ends = [...slices].sort((a, b) => endOf(a) - endOf(b));
  const open: CheckedEvent[] = [];
  let next = 0;
  for (const ending of ends) {
    for (
      let begin = begins[next];
      begin !== undefined && (begin.ts < endOf(ending) || begin === ending);
      begin = begins[++next]
    ) {
      open.push(begin);
    }
    const innermost = open.pop();
    const text = (event: CheckedEvent) => `${event.name} (${event.ts} + ${event.dur})`;
    assert.ok(
      innermost === ending,
      `${text(ending)} ends while ${innermost === undefined ? 'nothing' : text(innermost)} is open on ${track}`,
    );
  }
}
