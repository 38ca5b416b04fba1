// A promise form of a compiled operation, from the call to its end. At the end of its tick it goes by itself, if it was the
// only call of that tick; otherwise it becomes an ordinary request and goes with the others, so that what goes together does
// not depend on who comes when.

import type { LoneCall } from '../../engine/channel.ts';
import { finishUnnamedFingerprint, unnamedKey } from '../../engine/description.ts';
import { Fingerprint } from '../../engine/fingerprint.ts';
import type { Request } from '../../engine/request.ts';
import type { HorovodError } from '../../errors.ts';
import {
  bytesInArrays,
  type QuickArrays,
  type QuickPlace,
  type QuickResult,
  type TransportOperation,
} from '../../transport/transport.ts';
import type { CollectiveOptions } from '../options.ts';
import type { CompiledOperation } from './compiled-operation.ts';
import { type CompiledRunner, rejectAtCaller } from './slow-way.ts';

/** What became of an operation: done; done, with a result of another size; or done by the common way. */
export type Ended = 0 | QuickResult | TransportOperation;

export interface OperationArrays {
  readonly input: QuickArrays;
  readonly output: QuickArrays;
  readonly place: QuickPlace;
}

export class LoneOperation<R> implements LoneCall {
  readonly inputBytes: number;
  readonly #runner: CompiledRunner;
  readonly #compiled: CompiledOperation;
  readonly #arrays: OperationArrays;
  readonly #options: CollectiveOptions;
  readonly #finish: (ended: Ended) => R;
  readonly #resolve: (result: R | Promise<R>) => void;
  /** Of a call without a name: its number. */
  readonly #count: number;

  constructor(
    runner: CompiledRunner,
    compiled: CompiledOperation,
    arrays: OperationArrays,
    options: CollectiveOptions,
    finish: (ended: Ended) => R,
    resolve: (result: R | Promise<R>) => void,
  ) {
    this.inputBytes = bytesInArrays(arrays.input);
    this.#runner = runner;
    this.#compiled = compiled;
    this.#arrays = arrays;
    this.#options = options;
    this.#finish = finish;
    this.#resolve = resolve;
    this.#count = compiled.name === undefined ? compiled.channel.nextUnnamed() : 0;
  }

  isIntact(): boolean {
    return bytesInArrays(this.#arrays.input) === this.inputBytes;
  }

  run(): void {
    try {
      this.#run();
    } catch (error) {
      this.reject(error as HorovodError);
    }
  }

  reject(error: HorovodError): void {
    this.#resolve(rejectAtCaller(error));
  }

  request(): Request {
    return this.#requestWith(undefined);
  }

  #run(): void {
    const { channel, quick, observed, operation, name } = this.#compiled;
    const { input, output, place } = this.#arrays;
    let { fingerprint } = this.#compiled;
    if (name === undefined) {
      observed.unnamed = this.#count;
      const numbered = new Fingerprint();
      finishUnnamedFingerprint(numbered, fingerprint, this.#count);
      fingerprint = numbered;
    }
    channel.beginQuick(observed, quick);
    const ended = quick.runSoon(operation, input, output, place, fingerprint.low, fingerprint.high);
    if (ended === 0 || typeof ended === 'object') {
      channel.endQuick(observed, quick);
      this.#resolve(this.#finish(ended as 0 | QuickResult));
      return;
    }
    // The peers are late, want something else, or are gone.
    const request = this.#requestWith(observed.sequence);
    if (ended === undefined) channel.adoptQuick(request, quick);
    else channel.settleQuick(request, quick, ended);
  }

  #requestWith(sequence: number | undefined): Request {
    const { input, output } = this.#arrays;
    const { plan, operation } = this.#compiled.planOf(input, output);
    return this.#runner.requestFor({
      plan,
      options: this.#options,
      key: this.#compiled.name ?? unnamedKey(this.#count),
      sequence,
      resolve: () => this.#resolve(this.#finish(operation)),
      reject: (error) => this.reject(error),
    });
  }
}
