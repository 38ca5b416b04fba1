// The program of a rank of run(): fetches the call from the launcher's store, makes it, and stores the outcome. An error is
// then thrown again, so that it ends this process and reaches the other ranks as in any script. It is not printed: the caller
// of run() gets it, with its stack, and may catch it.

import { joinJob } from '../../rendezvous/join.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import { TcpStore } from '../../rendezvous/store/tcp-store.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { Settings } from '../../settings/table.ts';
import { type Call, decodeCall } from './call.ts';
import { loadCallee } from './load-callee.ts';
import { type EncodedOutcome, encodeError, encodeValue } from './outcome.ts';
import { callKey, getBytes, outcomeKey, putBytes, runJobId } from './store-bytes.ts';

// Node 20 would warn in every rank that import() inside the function uses an experimental feature.
const warn = process.emitWarning.bind(process) as (...words: unknown[]) => void;
process.emitWarning = (...words: unknown[]) => {
  if (!String(words[0]).includes('USE_MAIN_CONTEXT_DEFAULT_LOADER')) warn(...words);
};

await main();

async function main(): Promise<void> {
  const settings = readSettings(processEnvironment());
  const wait = { timeoutMs: settings.startTimeoutMs };
  const { store, rank } = await connect(settings, wait);
  const call = decodeCall(await getBytes(store, callKey, wait));
  const { bytes, failure } = await outcomeOf(call);
  await putBytes(store, outcomeKey(rank), bytes);
  store.close();
  if (failure === undefined) return;
  // Node prints what nobody listens to.
  process.on('uncaughtException', () => process.exit(1));
  throw failure.error;
}

async function connect(
  settings: Settings,
  wait: { timeoutMs: number },
): Promise<{ store: Store; rank: number }> {
  // In an elastic job several workers may expect the same rank.
  const { runAddress: address, runSecret: secret, worker } = settings;
  const rank = worker ?? settings.rank;
  if (address === undefined || secret === undefined) return joinJob({ ...settings, rank }, wait, 'run');
  return { store: await TcpStore.connect({ address, secret, jobId: runJobId, rank, ...wait }), rank };
}

async function outcomeOf(call: Call): Promise<EncodedOutcome> {
  try {
    const fn = await loadCallee(call);
    return encodeValue(await fn(...call.args));
  } catch (error) {
    return { bytes: encodeError(error), failure: { error } };
  }
}
