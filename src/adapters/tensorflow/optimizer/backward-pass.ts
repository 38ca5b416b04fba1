// One backpropagation's way through a GradientReducer. It hears gradients while they are computed, where it can (tape-hook.ts),
// and reduces the rest when all are there.
//
// NOTE [Whose memory]. Gradients go in as tensors and come out as tensors. A tensor that we may use up, that shares its memory
// with no other and that was made by this backpropagation is reduced in its memory. Others are copied: two variables'
// gradients may be one array (d(a+b)), and a gradient may be a tensor of the user's. During backpropagation nothing is
// written, only copied out: a finished gradient may still be the input of another.

import * as tf from '@tensorflow/tfjs';
import { currentContext } from '../../context.ts';
import { bulkMemory } from '../backend/tfjs-node-memory.ts';
import { copyTensor, isSoleOwner, liveView, makeTensor } from '../tensor-access.ts';
import type { Mode } from './gradient-agreement.ts';
import { type Gradients, readInto } from './gradients.ts';
import type { Route, Staging } from './route.ts';
import { listenToTape } from './tape-hook.ts';

export interface PassParts {
  readonly variables: readonly tf.Variable[];
  /** Of the passes before this one. */
  readonly route: Route | undefined;
  readonly mayOverlap: boolean;
  /** Collective if there is no route yet, or it lacks a gradient. */
  readonly findRoute: (gradients: Gradients, heard: readonly number[], modes: readonly Mode[]) => Route;
}

export class BackwardPass {
  readonly #parts: PassParts;
  readonly #route: Route | undefined;
  readonly #placeOf: ReadonlyMap<tf.Variable, number>;
  /** Places heard during backpropagation, in order. */
  readonly #heard = new Set<number>();
  #canListen = false;
  #lossId = Number.POSITIVE_INFINITY;

  constructor(parts: PassParts) {
    this.#parts = parts;
    this.#route = parts.route?.isCurrent(currentContext()) ? parts.route : undefined;
    this.#placeOf = new Map(parts.variables.map((variable, place) => [variable, place]));
    // If the user's code threw in the pass before this one, buckets of it may still be in flight.
    this.#route?.discardStarted();
  }

  /** The loss function, wrapped so that we see each gradient when it is ready. */
  listening(f: () => tf.Scalar): () => tf.Scalar {
    const isNeeded = this.#route === undefined || this.#route.mode === 'overlapped';
    return () => {
      const loss = f();
      this.#lossId = loss.id;
      if (this.#parts.mayOverlap && isNeeded) {
        this.#canListen = listenToTape(loss, this.#parts.variables, (variable, gradient) =>
          this.#hear(variable, gradient),
        );
      }
      return loss;
    };
  }

  /** Uses up the gradients and returns the reduced ones. */
  finish(gradients: Gradients): Gradients {
    return this.#reduce(gradients, true);
  }

  /** The same for tensors that were made for this pass, and by no loss. */
  finishOwn(tensors: Gradients): Gradients {
    this.#lossId = -1;
    return this.#reduce(tensors, true);
  }

  /** The same, but the gradients stay the caller's and unchanged. */
  finishWithCopies(gradients: Gradients): Gradients {
    return this.#reduce(gradients, false);
  }

  #hear(variable: tf.Variable, gradient: tf.Tensor): void {
    const place = this.#placeOf.get(variable);
    if (place === undefined) return;
    this.#heard.add(place);
    const route = this.#route;
    if (route?.mode !== 'overlapped') return;
    const bucket = route.buckets.find(({ places }) => places.includes(place));
    const part = bucket?.staging?.parts[bucket.places.indexOf(place)];
    if (part === undefined) return; // new since the ranks agreed; they will agree again
    readInto(gradient, part);
    // Buckets start when all their gradients are there, and in order, which is the same on every rank.
    for (const { places } of route.waiting()) {
      if (!places.every((each) => this.#heard.has(each))) return;
      route.startNext();
    }
  }

  #reduce(gradients: Gradients, areOurs: boolean): Gradients {
    const route = this.#parts.findRoute(gradients, [...this.#heard], this.#modes());
    if (route !== this.#route) this.#heard.clear(); // nothing that was heard has been kept
    return route.mode === 'direct'
      ? this.#reduceDirectly(route, gradients, areOurs)
      : this.#reduceStaged(route, gradients, areOurs);
  }

  #reduceDirectly(route: Route, gradients: Gradients, areOurs: boolean): Gradients {
    const owned = gradients.map((gradient, place) => {
      if (!route.places.has(place)) return gradient;
      if (gradient === undefined) return tf.zeros(this.#variable(place).shape);
      if (areOurs && this.#isWritable(gradient)) return gradient;
      // tfjs-node itself copies memory that others can see.
      const copy = bulkMemory() === undefined ? copyTensor(gradient) : gradient.clone();
      if (areOurs) this.#useUp(gradient);
      return copy;
    });
    for (const bucket of route.buckets) {
      const places = bucket.places.filter((place) => (owned[place] as tf.Tensor).size > 0);
      if (places.length === 0) continue;
      const tensors = places.map((place) => owned[place] as tf.Tensor);
      const variables = places.map((place) => this.#variable(place));
      route.reduceInPlace(bucket, tensors, variables).forEach((reduced, i) => {
        owned[places[i] as number] = reduced;
      });
    }
    return owned;
  }

  #reduceStaged(route: Route, gradients: Gradients, areOurs: boolean): Gradients {
    for (const { places, staging } of route.waiting()) {
      places.forEach((place, i) => {
        if (this.#heard.has(place)) return;
        const gradient = gradients[place];
        const part = (staging as Staging).parts[i] as Float32Array;
        if (gradient === undefined) part.fill(0);
        else readInto(gradient, part);
      });
      route.startNext();
    }
    route.waitForAll();
    const reduced = [...gradients];
    for (const { places, staging } of route.buckets) {
      places.forEach((place, i) => {
        const part = (staging as Staging).parts[i] as Float32Array;
        const gradient = gradients[place];
        const isOurs = areOurs && gradient !== undefined;
        const view = isOurs && this.#isWritable(gradient) ? liveView(gradient) : undefined;
        if (view !== undefined) {
          view.set(part as never);
          return;
        }
        reduced[place] = makeTensor(part.slice(), this.#variable(place).shape, 'float32');
        if (isOurs) this.#useUp(gradient);
      });
    }
    return reduced;
  }

  #variable(place: number): tf.Variable {
    return this.#parts.variables[place] as tf.Variable;
  }

  /** A tensor from before the loss is the user's, even if it is returned as a gradient. */
  #useUp(gradient: tf.Tensor): void {
    if (gradient.id > this.#lossId) gradient.dispose();
  }

  /** See NOTE [Whose memory]. */
  #isWritable(gradient: tf.Tensor): boolean {
    if (gradient.id <= this.#lossId) return false;
    return bulkMemory() !== undefined || (isSoleOwner(gradient) && liveView(gradient) !== undefined);
  }

  /** What this rank can do, the best first. */
  #modes(): Mode[] {
    const canOverlap =
      this.#parts.mayOverlap && this.#canListen && currentContext().gradients.shouldOverlap();
    const hasViews = ['wasm', 'cpu'].includes(tf.getBackend()) || bulkMemory() !== undefined;
    const modes: Mode[] = ['staged'];
    if (hasViews) modes.unshift('direct');
    if (canOverlap) modes.unshift('overlapped');
    return modes;
  }
}
