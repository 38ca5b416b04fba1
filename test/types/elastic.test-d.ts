// What the compiler must accept and refuse of horovod/elastic, and of `elastic` in horovod.

import * as hvd from 'horovod';
import {
  type ElasticBatch,
  ElasticFileSampler,
  ElasticSampler,
  generation,
  isFailure,
  isHostsUpdated,
  ObjectState,
  type Reset,
  resume,
  run,
  State,
  type StatePart,
} from 'horovod/elastic';

const sampler = new ElasticSampler({ length: 100, globalBatchSize: 10, uneven: 'exact' });
const state = new ObjectState({ epoch: 0, names: ['a'], sums: new Float32Array(3), sampler });

// Fields are properties, with their types.
state.epoch += 1;
export const names: string[] = state.names;
export const position: number = state.sampler.position;
export const commits: number = state.commits;
// @ts-expect-error epoch is a number
state.epoch = 'one';
// @ts-expect-error no such field
state.batch = 1;
// @ts-expect-error counted by commit()
state.commits = 3;
// @ts-expect-error fields are given as an object
new ObjectState(3);

// The state is handed on with its type, and the result is that of the function.
export const direct: Promise<number> = run((given) => given.epoch + given.sums.length, state);
export const promised: Promise<string> = run(async () => 'done', state);
export const later: (given: typeof state) => Promise<number> = run((given: typeof state) => given.epoch);
// @ts-expect-error a state is not a plain object
await run(() => 1, { epoch: 0 });
// @ts-expect-error what is not a field of the state
await run((given) => given.step, state);

export const sent: Promise<void> = state.commit();
export const checked: Promise<void> = state.checkHostUpdates();
state.commitSync();
state.checkHostUpdatesSync();
export const end: () => void = state.onReset(({ generation, size, previousSize, lost, joined }: Reset) => {
  console.log(generation + size + previousSize + joined.length, lost[0]?.how);
});
state.registerResetCallbacks([() => undefined, async () => undefined]);
// @ts-expect-error a function
state.onReset('rank');

const [first] = sampler.batches();
const batch = first as ElasticBatch;
export const indices: Int32Array = batch.indices;
export const taken: { x: Float32Array; texts: string[] } = batch.take({
  x: new Float32Array(9),
  texts: [''],
});
sampler.record(batch);
// @ts-expect-error no such way
new ElasticSampler({ length: 3, uneven: 'wrap' });
// @ts-expect-error how many samples there are
new ElasticSampler({ batchSize: 3 });
const files = new ElasticFileSampler({ files: [{ path: 'a', records: 3 }], shuffle: 'files' });
export const place: { path: string; record: number }[] = files.locate(batch).map((each) => ({ ...each }));

const counted = new ObjectState({ position: 0 });
for await (const each of resume(() => [1, 2, 3], counted)) console.log(each.toFixed());
// @ts-expect-error the state has to count what is used
resume(() => [1], state);

/** A kind of state of one's own. */
class Own extends State {
  protected override parts(): readonly StatePart[] {
    return [{ save: () => undefined, restore: () => undefined, sync: async (root) => console.log(root) }];
  }
}
await run((own) => own.commit(), new Own());
// @ts-expect-error it has no parts
new State();

export const kinds: boolean[] = [isFailure(new Error('x')), isHostsUpdated(undefined)];
export const number: number = generation();
export const same: typeof run = hvd.elastic.run;
