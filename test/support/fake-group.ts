// A transport group that a test plays by hand: it keeps what a channel submits, and ends it as the test says. Lists that a
// channel sends after a mismatch are answered with those of a made-up other rank.

import assert from 'node:assert/strict';
import { encodePendingList, type PendingList } from '../../src/engine/agreement/pending-list.ts';
import type { HorovodError } from '../../src/errors.ts';
import type { AllgatherOperation, Batch, Outcome, TransportGroup } from '../../src/transport/transport.ts';

type Complete = (outcome: Outcome | HorovodError) => void;
/** What a blocking call meets, given the batch it waits for. */
export type Answer = (batch: Batch) => Outcome;

export class FakeGroup implements TransportGroup {
  readonly index = 0;
  readonly size = 2;
  /** What was given to submit() and has not ended, oldest first. */
  readonly under: { readonly batch: Batch; readonly complete: Complete }[] = [];
  /** What was given to runSync() or waited for, in order. */
  readonly blocked: Batch[] = [];
  /** Batches that others have seen: they cannot be taken back. */
  readonly begun = new Set<Batch>();
  /** For the next blocking calls. */
  readonly answers: Answer[] = [];
  isClosed = false;

  get batches(): Batch[] {
    return this.under.map(({ batch }) => batch);
  }

  /** The batch in front. */
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

  /** Ends the batch in front. */
  end(outcome: Outcome | HorovodError): void {
    const first = this.under.shift();
    assert.ok(first, 'nothing is under way');
    first.complete(outcome);
  }

  /** Ends the exchange in front with the list of the other rank. */
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
