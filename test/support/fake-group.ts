// A transport group that a test controls: it keeps the batches that a channel submits, and completes them as the test says. If a
// channel sends its list after a mismatch, the group answers with the list of an imaginary other rank.

import assert from 'node:assert/strict';
import { encodePendingList, type PendingList } from '../../src/engine/agreement/pending-list.ts';
import type { HorovodError } from '../../src/errors.ts';
import type { AllgatherOperation, Batch, Outcome, TransportGroup } from '../../src/transport/transport.ts';

type Complete = (outcome: Outcome | HorovodError) => void;
/** The outcome of a blocking call, given the batch that it waits for. */
export type Answer = (batch: Batch) => Outcome;

export class FakeGroup implements TransportGroup {
  readonly index = 0;
  readonly size = 2;
  /** Submitted batches that are not complete, oldest first. */
  readonly under: { readonly batch: Batch; readonly complete: Complete }[] = [];
  /** Batches of runSync() and of waits, in order. */
  readonly blocked: Batch[] = [];
  /** Batches that other members have seen, so that they cannot be taken back. */
  readonly begun = new Set<Batch>();
  /** Outcomes of the next blocking calls. */
  readonly answers: Answer[] = [];
  isClosed = false;

  get batches(): Batch[] {
    return this.under.map(({ batch }) => batch);
  }

  /** The oldest batch. */
  get head(): Batch {
    const [first] = this.under;
    assert.ok(first, 'nothing is under way');
    return first.batch;
  }

  submit(batch: Batch, complete: Complete): undefined {
    this.under.push({ batch, complete });
  }

  runSync(batch: Batch): Outcome {
    return this.#block(batch);
  }

  waitSync(batch: Batch): Outcome {
    const place = this.under.findIndex((each) => each.batch === batch);
    assert.ok(place >= 0, 'waitSync() for what was not submitted');
    this.under.splice(place, 1);
    return this.#block(batch);
  }

  takeBack(): Batch[] {
    const taken = this.under.filter(({ batch }) => !this.begun.has(batch));
    for (const each of taken) this.under.splice(this.under.indexOf(each), 1);
    return taken.map(({ batch }) => batch);
  }

  missing(): number[] {
    return [1];
  }

  close(): void {
    this.isClosed = true;
  }

  /** Completes the oldest batch. */
  end(outcome: Outcome | HorovodError): void {
    const first = this.under.shift();
    assert.ok(first, 'nothing is under way');
    first.complete(outcome);
  }

  /** Completes the oldest exchange with the list of the other rank. */
  endExchange(other: PendingList): void {
    answerExchange(this.head, other);
    this.end('done');
  }

  #block(batch: Batch): Outcome {
    this.blocked.push(batch);
    const answer = this.answers.shift();
    assert.ok(answer, `no answer for ${batch.label}`);
    return answer(batch);
  }
}

/** For blocking calls. */
export function answerExchange(batch: Batch, other: PendingList): Outcome {
  const operation = batch.rounds[0]?.operation as AllgatherOperation;
  assert.equal(operation.kind, 'allgather');
  const lists = [operation.input, encodePendingList(other)];
  operation.output = Buffer.concat(lists);
  operation.byteCounts = lists.map(({ length }) => length);
  return 'done';
}
