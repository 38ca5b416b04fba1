// An agent in a place that a cluster manager has given to the job, such as a Spark task. The task starts `node main.js dial` and writes
// one line of JSON, a DialOrder, to its stdin, which stays open as long as the task lives. The agent dials back to the launcher, both
// prove that they know the secret, and all messages travel in sealed frames. It ends when the launcher hangs up (exit code 0: nothing
// is left to do), or with an error: the task has ended, the launcher is silent, or cannot be reached.

import { existsSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { HorovodError } from '../../errors.ts';
import { parseAddress } from '../../net/addresses.ts';
import type { Connection } from '../../net/connection.ts';
import { Dial } from '../../net/dial.ts';
import { hasFields, isCount, isText, parseObject } from '../../net/frames.ts';
import { SealedFrames } from '../../net/sealed-frames.ts';
import { inSeconds, waitFor } from '../../net/wait.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { Agent } from './agent.ts';
import { agentsNumber, attemptChannel, type DialOrder } from './dial-order.ts';
import { decodeBody, encodeBody, maxFrameBytes, type Order } from './protocol.ts';

/** How long the line may take, and its length. */
const orderMs = 30_000;
const maxOrderBytes = 64 * 1024;

/** Resolves with the exit code when nothing is left to do. */
export async function runDialedAgent(): Promise<number> {
  const say = (text: string) => void process.stderr.write(`horovod agent: ${text}\n`);
  process.stderr.on('error', () => undefined);
  try {
    const order = await readOrder(process.stdin);
    if (order.directory !== undefined && existsSync(order.directory)) process.chdir(order.directory);
    const code = await serve(order, say);
    say(`place ${order.place} ended with code ${code}`);
    return code;
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    say(error.detail);
    return 1;
  }
}

async function serve(order: DialOrder, say: (text: string) => void): Promise<number> {
  const secret = JobSecret.fromHex(order.secret);
  if (secret === undefined) throw new HorovodError('ERR_HVD_RENDEZVOUS', 'the order has no secret.');
  const gone = new AbortController();
  process.stdin.once('end', () => gone.abort());
  process.stdin.once('error', () => gone.abort());
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT'] as const) process.on(signal, () => gone.abort());
  process.stdin.resume();
  const connection = await dial(order, secret, gone.signal);
  const { socket } = connection;
  say(`place ${order.place}, attempt ${order.attempt}: connected to the launcher at ${connection.address}`);
  const frames = new SealedFrames(connection.keysFor('frames'), maxFrameBytes);
  const agent = new Agent((report) => void socket.write(frames.seal(encodeBody(report))), {
    secret,
    launcherAddress: parseAddress(connection.address)?.host,
    place: {
      name: `${order.jobId}-${order.place}-${order.attempt}`,
      gpus: processEnvironment()['CUDA_VISIBLE_DEVICES'],
    },
  });
  const leave = () => agent.leave('the task or executor that ran its agent has ended');
  gone.signal.addEventListener('abort', leave);
  if (gone.signal.aborted) leave();
  socket.on('error', () => agent.end(1));
  socket.once('end', () => agent.end());
  socket.once('close', () => agent.end(1));
  socket.on('data', (piece: Buffer) =>
    agent.receive(() => frames.open(piece).map((body) => decodeBody(body) as Order)),
  );
  socket.resume();
  const code = await agent.finished;
  socket.end();
  return code;
}

async function dial(order: DialOrder, secret: JobSecret, signal: AbortSignal): Promise<Connection> {
  const { jobId, place: from, attempt, addresses, timeoutMs } = order;
  let dialing: Dial | undefined;
  try {
    return await waitFor<Connection>(
      (resolve) => {
        dialing = new Dial({
          identity: { secret, jobId },
          claim: { purpose: 'agents', from, to: agentsNumber, channel: attemptChannel(attempt) },
          addresses,
          onConnection: resolve,
        });
      },
      'for the connection to the launcher',
      { timeoutMs, signal },
      () =>
        new HorovodError(
          'ERR_HVD_TIMEOUT',
          `place ${from} could not connect to the launcher within ${inSeconds(timeoutMs)}: ${dialing?.describe()}. ` +
            'Can this machine reach that one (firewall), and is the job still running?',
        ),
    );
  } finally {
    dialing?.cancel();
  }
}

async function readOrder(stdin: Readable): Promise<DialOrder> {
  let text = '';
  const wrong = (what: string) => new HorovodError('ERR_HVD_RENDEZVOUS', `the order on stdin ${what}.`);
  const line = await waitFor<string>(
    (resolve, reject) => {
      const onData = (piece: Buffer) => {
        text += piece.toString('utf8');
        if (text.length > maxOrderBytes) reject(wrong('is too long'));
        const end = text.indexOf('\n');
        if (end < 0) return;
        stdin.off('data', onData);
        resolve(text.slice(0, end));
      };
      stdin.on('data', onData);
      stdin.once('end', () => reject(wrong('is missing')));
    },
    'for the order on stdin',
    { timeoutMs: orderMs },
    () => wrong(`has not come within ${inSeconds(orderMs)}`),
  );
  let order: Record<string, unknown>;
  try {
    order = parseObject(Buffer.from(line));
  } catch (error) {
    throw wrong(`is ${(error as Error).message}`);
  }
  const areTexts = (value: unknown) => Array.isArray(value) && value.every(isText);
  const fields = { secret: isText, jobId: isText, addresses: areTexts };
  const numbers = { place: isCount, attempt: isCount, timeoutMs: isCount };
  if (!hasFields(order, { ...fields, ...numbers }, ['directory'])) throw wrong('is not one of this version');
  return order as unknown as DialOrder;
}
