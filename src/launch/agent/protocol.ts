// What horovodrun and its agent on another host say to each other. A message is 1 byte of type, then JSON (type 0), or rank,
// stream and bytes of a rank's output (type 1). Over ssh, messages travel on the agent's stdin and stdout: first lines of text, since
// a login shell may print whatever it likes before (`horovod-agent <word> …`), and after the line `horovod-agent frames` frames with
// 4 bytes of length. On a socket on which the agent has dialed back, they travel in sealed frames (net/sealed-frames.ts). A stream
// of output has a window: only so many bytes are under way until the other side has used some (`credit`), so that a slow
// reader stops the rank that writes, and neither heartbeats nor other ranks.

import type { ProcessEnd } from '../../control/process-status.ts';
import { encodeFrame, FrameReader, ProtocolError, parseObject } from '../../net/frames.ts';
import type { RecordOrder } from '../../observe/timeline/record-order.ts';
import type { JobNews } from '../../rendezvous/driver/job-news.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { RankTestament } from '../ranks/host-ranks.ts';

/** Both sides must have the same. */
export const protocolVersion = 6;
export const linePrefix = 'horovod-agent ';
/** An environment may be large. */
export const maxFrameBytes: number = 16 * 2 ** 20;
export const maxOutputBytes: number = 64 * 1024;
/** How many bytes of one stream may be under way. */
export const outputWindowBytes: number = 512 * 1024;
export const heartbeatMs = 1000;
/** How long a stream may stay open after its rank, when another process holds it. */
export const quietOutputMs = 1000;

export type StreamName = 'stdout' | 'stderr';
/** The first byte of a frame's body. */
const jsonType = 0;
const outputType = 1;
const streamNames: readonly StreamName[] = ['stdout', 'stderr'];

/** From horovodrun to the agent. */
export type Order =
  | ({ readonly op: 'prepare' } & PrepareOrder)
  /** At any time after that. */
  | { readonly op: 'start'; readonly slots: readonly Slot[] }
  | { readonly op: 'signal'; readonly rank: number; readonly signal: NodeJS.Signals }
  /** `workers`: of an elastic job, by rank. */
  | { readonly op: 'control-block'; readonly path: string; readonly workers?: readonly number[] | undefined }
  /** Answered with a view. */
  | { readonly op: 'look' }
  /** The ranks are to record a timeline of the next steps. */
  | { readonly op: 'record'; readonly order: RecordOrder }
  /** The ranks of an elastic job are to leave their generation together. */
  | { readonly op: 'notice' }
  /** What `horovod status` shows of an elastic job. */
  | { readonly op: 'news'; readonly news: Omit<JobNews, 'pid'> }
  | { readonly op: 'credit'; readonly rank: number; readonly stream: StreamName; readonly bytes: number }
  | { readonly op: 'terminal'; readonly columns: number }
  | { readonly op: 'heartbeat' };

/** It is written into a folder below the working directory of the ranks, so that its imports find the packages there. */
export interface SentProgram {
  /** Of the file, without folders. */
  readonly name: string;
  readonly base64: string;
}

/** What all ranks of the host have in common. Ranks are known by their numbers (`numberOf`). */
export interface PrepareOrder {
  readonly jobId: string;
  /** Only over ssh: an agent that has dialed back knows it. */
  readonly secret?: string | undefined;
  /** The name of the host in the job. */
  readonly hostname: string;
  /** How many ranks share its cores and GPUs. */
  readonly slotCount: number;
  /** The command as the user gave it, and the Node options of the launcher. */
  readonly words: readonly string[];
  readonly execPath: string;
  readonly execArgv: readonly string[];
  /** The script or notebook of the command, where it is on no host. */
  readonly sent?: SentProgram | undefined;
  readonly forwarded: Readonly<Record<string, string>>;
  /** Variables that flags and config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly rendezvousAddress: string;
  /** Of the launcher's terminal, for rank 0. */
  readonly terminalColumns?: number | undefined;
  readonly pinCores: boolean;
  readonly pinGpus: boolean;
  readonly graceMs: number;
  readonly silenceMs: number;
  /** Of an elastic job: report processes that were stopped, or hang for this long. */
  readonly hangTimeoutMs?: number | undefined;
}

/** From the agent to horovodrun. */
export type Report =
  | ({ readonly op: 'hello' } & Hello)
  | { readonly op: 'started'; readonly pids: readonly (readonly [rank: number, pid: number | null])[] }
  /** The ranks cannot be started at all. */
  | { readonly op: 'refused'; readonly why: string }
  | { readonly op: 'output'; readonly rank: number; readonly stream: StreamName; readonly bytes: Buffer }
  | { readonly op: 'output-end'; readonly rank: number; readonly stream: StreamName }
  | {
      readonly op: 'ended';
      readonly rank: number;
      readonly end: ProcessEnd;
      readonly spawnError?: string | undefined;
    }
  | { readonly op: 'testament'; readonly rank: number; readonly testament: RankTestament }
  | { readonly op: 'cleared'; readonly rank: number }
  | { readonly op: 'stopped'; readonly rank: number; readonly isStopped: boolean }
  | { readonly op: 'hanging'; readonly rank: number; readonly generation: number }
  | { readonly op: 'remark'; readonly text: string; readonly isImportant: boolean }
  /** Its place is taken away, so it ends its ranks and itself. `why` completes 'host2: …'. */
  | { readonly op: 'leaving'; readonly why: string }
  /** JSON of a JobView, with names for numbers that are not finite. */
  | { readonly op: 'view'; readonly json: string }
  | { readonly op: 'heartbeat' };

export interface Hello {
  readonly protocol: number;
  readonly version: string;
  readonly node: string;
  readonly pid: number;
  readonly hostname: string;
  /** Equal if this host reaches the launcher at 127.0.0.1. */
  readonly loopback: string;
  /** Equal for agents whose ranks can share memory: one machine, one container, one user. */
  readonly machine: string;
  /** The launcher's address as this host sees it: from SSH_CONNECTION, or the one that the agent has dialed. */
  readonly launcherAddress?: string | undefined;
  readonly directory: string;
}

/** A message in a frame. */
export function encodeMessage(message: Order | Report): Buffer {
  return encodeFrame(encodeBody(message), maxFrameBytes);
}

export function encodeBody(message: Order | Report): Buffer {
  if (message.op !== 'output') return Buffer.from(`\0${JSON.stringify(message)}`);
  const head = Buffer.alloc(6);
  head.writeUInt8(outputType, 0);
  head.writeUInt32BE(message.rank, 1);
  head.writeUInt8(streamNames.indexOf(message.stream), 5);
  return Buffer.concat([head, message.bytes]);
}

/** Cuts a stream of bytes, in whatever pieces it comes, into messages. */
export class MessageReader<T extends Order | Report> {
  readonly #frames = new FrameReader(maxFrameBytes);

  push(piece: Buffer): T[] {
    return this.#frames.push(piece).map((body) => decodeBody(body) as T);
  }
}

const operations: ReadonlySet<unknown> = new Set([
  ...([
    'prepare',
    'start',
    'signal',
    'control-block',
    'look',
    'record',
    'notice',
    'news',
  ] satisfies Order['op'][]),
  ...(['credit', 'terminal', 'heartbeat'] satisfies Order['op'][]),
  ...(['hello', 'started', 'refused', 'output-end'] satisfies Report['op'][]),
  ...([
    'ended',
    'testament',
    'cleared',
    'stopped',
    'hanging',
    'remark',
    'leaving',
    'view',
  ] satisfies Report['op'][]),
]);

/** Throws a ProtocolError. */
export function decodeBody(body: Buffer): Order | Report {
  const type = body.readUInt8(0);
  if (type === outputType) {
    const stream = body.length < 6 ? undefined : streamNames[body.readUInt8(5)];
    if (stream === undefined) throw new ProtocolError('output of an unknown stream');
    return { op: 'output', rank: body.readUInt32BE(1), stream, bytes: body.subarray(6) };
  }
  if (type !== jsonType) throw new ProtocolError(`a frame of type ${type}`);
  const message = parseObject(body.subarray(1));
  if (!operations.has(message['op'])) throw new ProtocolError('an unknown message');
  return message as unknown as Order | Report;
}

/** One line before the frames: a word and what follows it. */
export interface PreambleLine {
  readonly word: string;
  readonly rest: string;
}

/** What a login shell prints may not be without end. */
const maxPreambleBytes = 256 * 1024;

/** Reads the lines before the frames and hands the rest on. */
export class PreambleReader {
  /** What came that is not ours: greetings of a login shell. */
  noise = '';
  #text: Buffer = Buffer.alloc(0);

  /** `frames` is set when the line `frames` has come: the bytes after it. */
  push(piece: Buffer): { lines: PreambleLine[]; frames: Buffer | undefined } {
    this.#text = Buffer.concat([this.#text, piece]);
    const lines: PreambleLine[] = [];
    for (;;) {
      const end = this.#text.indexOf(10);
      if (end < 0) {
        if (this.#text.length > maxPreambleBytes) throw new ProtocolError('a line without end');
        return { lines, frames: undefined };
      }
      const line = this.#text.toString('utf8', 0, end).replace(/\r$/, '');
      this.#text = this.#text.subarray(end + 1);
      // A greeting may lack its newline.
      const at = line.indexOf(linePrefix);
      if (at < 0) {
        this.noise = `${this.noise}${line}\n`.slice(-2000);
        continue;
      }
      const [word = '', ...rest] = line.slice(at + linePrefix.length).split(' ');
      if (word === 'frames') return { lines, frames: this.#text };
      lines.push({ word, rest: rest.join(' ') });
    }
  }
}
