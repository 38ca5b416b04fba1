// What a rank of run() runs: fetches the call from the launcher's store, makes it, and writes there what came out. An
// error is thrown again after that: it ends this process like that of any script, so that the other ranks learn it.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, Script } from 'node:vm';
import { joinJob } from '../../rendezvous/join.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import { TcpStore } from '../../rendezvous/store/tcp-store.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { Settings } from '../../settings/table.ts';
import { type Call, decodeCall } from './call.ts';
import { type EncodedOutcome, encodeError, encodeValue } from './outcome.ts';
import { callKey, getBytes, outcomeKey, putBytes, runJobId } from './store-bytes.ts';

// esbuild and tsx write this helper into functions; their text does not bring it along.
Object.assign(globalThis, { __name: (fn: unknown) => fn });

// Node 20 says in every rank that what import() inside the function goes through may change.
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
  if (failure !== undefined) throw failure.error;
}

async function connect(
  settings: Settings,
  wait: { timeoutMs: number },
): Promise<{ store: Store; rank: number }> {
  const { runAddress: address, runSecret: secret, rank } = settings;
  if (address === undefined || secret === undefined) return joinJob(settings, wait);
  return { store: await TcpStore.connect({ address, secret, jobId: runJobId, rank, ...wait }), rank };
}

async function outcomeOf(call: Call): Promise<EncodedOutcome> {
  try {
    const fn = await load(call);
    return encodeValue(await fn(...call.args));
  } catch (error) {
    return { bytes: encodeError(error), failure: { error } };
  }
}

async function load(call: Call): Promise<(...args: readonly unknown[]) => unknown> {
  if (call.kind === 'function') {
    // As if it stood in a file of the working directory: that is where imports inside it are looked for.
    const script = new Script(call.expression, {
      filename: join(process.cwd(), 'hvd.run'),
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    return script.runInThisContext() as (...args: readonly unknown[]) => unknown;
  }
  if (/\.[mc]?ts$/.test(call.path)) await import('../typescript/register.ts');
  const module = (await import(pathToFileURL(call.path).href)) as { default?: unknown };
  // A CommonJS module that was written as ESM has its default export one level down.
  const inner = module.default as { default?: unknown } | undefined;
  const fn = typeof inner === 'function' ? inner : inner?.default;
  if (typeof fn === 'function') return fn as (...args: readonly unknown[]) => unknown;
  throw new TypeError(`${call.path} does not export a function as its default`);
}
