// How ranks that open something together learn of each other's success or failure. Each of them tells all others its state
// when it has opened its part or failed, and otherwise four times a second, so that nobody waits for a rank that has
// failed: a failure of one rank is an error on all of them soon after.

import { HorovodError } from '../../errors.ts';
import { failureOf } from '../../transport/group/open-members.ts';

export interface OpenTogetherOptions<T> {
  /** This rank's part. */
  readonly opening: Promise<T>;
  /** Collective over all ranks: gives the texts of all. */
  tell(text: string): Promise<readonly string[]>;
  /** How long a rank works on its part before it tells the others that it still does. */
  readonly periodMs?: number;
}

/** How the opening of this rank has ended. */
type Own<T> = { readonly opened: T } | { readonly error: unknown };

/** What a rank tells the others. */
type State =
  | { readonly state: 'opening' | 'open' }
  | ({ readonly state: 'failed' } & ReturnType<typeof failureOf>);

/**
 * Several ranks may fail, and one of them first: the later its code is in this list, the less a failure can be the cause. An
 * abort always is. The files of a rank that has failed are gone for those that have not opened them yet. The rest follows.
 */
const fromCauseToConsequence: readonly (string | undefined)[] = [
  'ERR_HVD_ABORTED',
  undefined, // any other
  'ERR_HVD_SHARED_MEMORY',
  'ERR_HVD_PEER_LOST',
  'ERR_HVD_SHUT_DOWN',
  'ERR_HVD_TIMEOUT',
];

/** What `opening` resolves to, once all ranks have opened their parts. Throws the first error of any rank. */
export async function openTogether<T>({ opening, tell, periodMs = 250 }: OpenTogetherOptions<T>): Promise<T> {
  let own: Own<T> | undefined;
  const settled = opening.then(
    (opened) => {
      own = { opened };
    },
    (error: unknown) => {
      own = { error };
    },
  );
  const tellState = async () => {
    const texts = await tell(JSON.stringify(stateOf(own)));
    return texts.map((text) => JSON.parse(text) as State);
  };
  for (;;) {
    await within(settled, periodMs);
    const told = own;
    const states = await tellState();
    if (states.some(({ state }) => state === 'failed')) {
      // One that failed while this round was under way has not said so yet, and others may have failed because of it.
      const last = await tellState().catch(() => states);
      throw errorOf(causeIn(last), own);
    }
    if (told !== undefined && 'opened' in told && states.every(({ state }) => state === 'open'))
      return told.opened;
  }
}

type Failure = Extract<State, { state: 'failed' }> & { readonly rank: number };

/** The failure that the others follow from. One that a rank has heard of already names the rank where it happened. */
function causeIn(states: readonly State[]): Failure {
  const failed = states.flatMap((state, rank) =>
    state.state === 'failed' ? [{ ...state, rank: state.rank ?? rank }] : [],
  );
  const weightOf = ({ code }: Failure) => {
    const place = fromCauseToConsequence.indexOf(code);
    return place < 0 ? fromCauseToConsequence.indexOf(undefined) : place;
  };
  return failed.reduce((first, each) => (weightOf(each) < weightOf(first) ? each : first));
}

/** The error of this rank keeps its stack; that of another names the rank. */
function errorOf({ code, detail, rank }: Failure, own: Own<unknown> | undefined): unknown {
  if (own !== undefined && 'error' in own && stateOf(own).detail === detail) return own.error;
  const isNamed = /^rank \d/.test(detail);
  return new HorovodError(code, isNamed ? detail : `rank ${rank}: ${detail}`, { rank });
}

function stateOf(own: Own<unknown> | undefined): State & { detail?: string } {
  if (own === undefined) return { state: 'opening' };
  return 'opened' in own ? { state: 'open' } : { state: 'failed', ...failureOf(own.error) };
}

async function within(promise: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
