// Delegation tokens for HDFS with Kerberos: from HOROVOD_HDFS_TOKEN, or from the file that YARN and Spark name in
// HADOOP_TOKEN_FILE_LOCATION. The file is Hadoop's: "HDTS", a version, then tokens as Writables (0) or as a protocol buffer (1).
// WebHDFS takes a token as base64 of its Writable form.

import { readFile } from 'node:fs/promises';
import type { FileSettings } from '../../settings/table.ts';
import { fileError } from '../file-system.ts';

export interface HadoopToken {
  readonly identifier: Buffer;
  readonly password: Buffer;
  readonly kind: string;
  readonly service: string;
}

/** The token for a namenode or nameservice, as the parameter `delegation`; undefined if there is none. */
export async function findToken(
  settings: Pick<FileSettings, 'hdfsToken' | 'hadoopTokenFile'>,
  authority: string,
): Promise<string | undefined> {
  if (settings.hdfsToken !== undefined) return settings.hdfsToken;
  const path = settings.hadoopTokenFile;
  if (path === undefined) return undefined;
  let content: Buffer;
  try {
    content = await readFile(path);
  } catch (cause) {
    const reason = (cause as Error).message;
    throw fileError(`Cannot read ${path} (HADOOP_TOKEN_FILE_LOCATION): ${reason}.`, undefined, cause);
  }
  let tokens: HadoopToken[];
  try {
    tokens = parseTokenFile(content);
  } catch (cause) {
    throw fileError(
      `${path} (HADOOP_TOKEN_FILE_LOCATION) is not a file with Hadoop tokens.`,
      undefined,
      cause,
    );
  }
  const token = chooseToken(tokens, authority);
  return token === undefined ? undefined : tokenText(token);
}

/** One that is for this namenode or nameservice; else the only kind that can be right. */
export function chooseToken(tokens: readonly HadoopToken[], authority: string): HadoopToken | undefined {
  const usable = tokens.filter(({ kind }) =>
    ['HDFS_DELEGATION_TOKEN', 'WEBHDFS delegation', 'SWEBHDFS delegation'].includes(kind),
  );
  return usable.find(({ service }) => [authority, `ha-hdfs:${authority}`].includes(service)) ?? usable[0];
}

export function tokenText({ identifier, password, kind, service }: HadoopToken): string {
  const parts = [identifier, password, Buffer.from(kind), Buffer.from(service)];
  return Buffer.concat(parts.flatMap((part) => [encodeVarLong(part.byteLength), part])).toString('base64url');
}

export function parseTokenFile(content: Buffer): HadoopToken[] {
  if (content.toString('latin1', 0, 4) !== 'HDTS') throw new Error('no HDTS at the beginning');
  const version = content[4];
  if (version === 0) return parseWritables(new Cursor(content, 5));
  if (version === 1) return parseMessage(content.subarray(5));
  throw new Error(`version ${version}`);
}

function parseWritables(cursor: Cursor): HadoopToken[] {
  const count = cursor.varLong();
  return Array.from({ length: count }, () => {
    cursor.bytes(cursor.varLong()); // the alias, which repeats the service
    const [identifier, password] = [cursor.bytes(cursor.varLong()), cursor.bytes(cursor.varLong())];
    const [kind, service] = [cursor.bytes(cursor.varLong()), cursor.bytes(cursor.varLong())];
    return { identifier, password, kind: kind.toString(), service: service.toString() };
  });
}

/** A delimited CredentialsProto: 1 = { 1: alias, 2: { 1: identifier, 2: password, 3: kind, 4: service } }, repeated. */
function parseMessage(content: Buffer): HadoopToken[] {
  const cursor = new Cursor(content, 0);
  const credentials = cursor.bytes(cursor.unsigned());
  return fieldsOf(credentials).flatMap(([field, entry]) => {
    const token = field === 1 ? fieldsOf(entry).find(([part]) => part === 2)?.[1] : undefined;
    if (token === undefined) return [];
    const parts = new Map(fieldsOf(token));
    const part = (number: number) => parts.get(number) ?? Buffer.alloc(0);
    return [{ identifier: part(1), password: part(2), kind: String(part(3)), service: String(part(4)) }];
  });
}

function fieldsOf(message: Buffer): [field: number, value: Buffer][] {
  const cursor = new Cursor(message, 0);
  const fields: [number, Buffer][] = [];
  while (!cursor.isAtEnd) {
    const key = cursor.unsigned();
    if (key % 8 !== 2) throw new Error('unexpected type of a field');
    fields.push([Math.floor(key / 8), cursor.bytes(cursor.unsigned())]);
  }
  return fields;
}

class Cursor {
  readonly #content: Buffer;
  #at: number;

  constructor(content: Buffer, at: number) {
    this.#content = content;
    this.#at = at;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#content.byteLength;
  }

  bytes(count: number): Buffer {
    if (count < 0 || this.#at + count > this.#content.byteLength) throw new Error('ends inside a token');
    this.#at += count;
    return this.#content.subarray(this.#at - count, this.#at);
  }

  /** Hadoop's WritableUtils.readVLong(), of which only values ≥ 0 are sizes. */
  varLong(): number {
    const first = this.bytes(1).readInt8();
    if (first >= -112) return first;
    const length = first < -120 ? -120 - first : -112 - first;
    if (first < -120 || length > 6) throw new Error('a size that cannot be');
    return this.bytes(length).readUIntBE(0, length);
  }

  /** A base-128 varint. */
  unsigned(): number {
    let value = 0;
    for (let factor = 1; factor < 2 ** 49; factor *= 128) {
      const byte = this.bytes(1)[0] as number;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    throw new Error('a size that cannot be');
  }
}

function encodeVarLong(value: number): Buffer {
  if (value <= 127) return Buffer.from([value]);
  const bytes = value > 0xffffff ? 4 : value > 0xffff ? 3 : value > 0xff ? 2 : 1;
  const encoded = Buffer.alloc(1 + bytes);
  encoded.writeInt8(-112 - bytes);
  encoded.writeUIntBE(value, 1, bytes);
  return encoded;
}
