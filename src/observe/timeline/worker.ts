// The thread of the collector. It has the lowest priority: a machine that is busy with training writes its timeline late, and drops
// events rather than slow down the ranks.

import { readlinkSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { Collector } from './collector.ts';
import type { CollectorOrder, CollectorReport, CollectorThreadData } from './orders.ts';

const turnMs = 50;

run();

function run(): void {
  const port = parentPort;
  const { options, over } = workerData as CollectorThreadData;
  if (port === null) throw new Error('this file is the thread of a collector');
  const report = (message: CollectorReport) => port.postMessage(message);
  const finish = (message: CollectorReport) => {
    report(message);
    const flag = new Int32Array(over);
    Atomics.store(flag, 0, 1);
    Atomics.notify(flag, 0);
    port.close();
  };
  setOwnPriority(constants.priority.PRIORITY_LOW);
  let collector: Collector;
  try {
    collector = new Collector(options);
  } catch (error) {
    finish({ type: 'rejected', ...reasonOf(error) });
    return;
  }
  let timer: NodeJS.Timeout | undefined;
  const breakOff = (error: unknown) => {
    clearTimeout(timer);
    collector.abandon();
    finish({ type: 'broken', ...reasonOf(error) });
  };
  let stopBy: number | undefined;
  const turn = () => {
    try {
      const isOver = stopBy !== undefined && collector.isOver;
      const isMore = collector.turn();
      if (stopBy !== undefined && ((isOver && collector.isOver) || performance.now() >= stopBy)) {
        collector.close();
        finish({ type: 'closed', dropped: collector.dropped });
        return;
      }
      timer = setTimeout(turn, isMore ? 0 : stopBy === undefined ? turnMs : 2);
    } catch (error) {
      breakOff(error);
    }
  };
  port.on('message', (order: CollectorOrder) => {
    // Now the ranks wait for this thread. Without the right to raise its priority it goes on with the lowest.
    setOwnPriority(constants.priority.PRIORITY_NORMAL);
    stopBy = performance.now() + order.patienceMs;
    collector.finish();
    clearTimeout(timer);
    turn();
  });
  report({ type: 'opened', beginning: collector.beginning });
  timer = setTimeout(turn, turnMs);
}

function setOwnPriority(priority: number): void {
  try {
    // On Linux this sets the priority of the thread with this id.
    const thread = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(thread, priority);
  } catch {
    // Other systems do not support this, and others forbid it. The collector works without it.
  }
}

function reasonOf(error: unknown): { code: string; message: string } {
  const { code, message } = error as NodeJS.ErrnoException;
  return { code: code ?? 'unknown', message: message ?? String(error) };
}
