// What every file system can do, whether its files are on this machine, behind a web server or on HDFS. A *location* is what
// users write: a path, or a URL as a string. Registry.ts finds the file system of a location; all functions below take
// locations of their own scheme. A read fills its target, or ends at the end of the file. Errors are ERR_HVD_FILE_SYSTEM;
// problemOf() says which kind.

import { HorovodError } from '../errors.ts';

export interface FileSystem {
  stat(location: string, options?: FileWaitOptions): Promise<FileStatus>;
  /** The entries of a folder, in no order. */
  list(location: string, options?: FileWaitOptions): Promise<FileStatus[]>;
  open(location: string, options?: FileWaitOptions): Promise<ReadHandle>;
  /** With all folders above it. Does nothing if it exists. */
  mkdir(location: string, options?: FileWaitOptions): Promise<void>;
  /** Does nothing if there is nothing. A folder with content needs `recursive`. */
  remove(location: string, options?: RemoveOptions): Promise<void>;
  /** A new file. Readers may see a part of it before close(): atomic-write.ts does better. */
  create(location: string, options?: CreateOptions): Promise<WriteHandle>;
  /** Within one file system; atomic. An existing target is an error unless `overwrite` is set. */
  rename(from: string, to: string, options?: RenameOptions): Promise<void>;
  /** Adds bytes at the end of an existing file; they are there for readers when it resolves. Not every file system can. */
  append?(location: string, bytes: Uint8Array, options?: FileWaitOptions): Promise<void>;
  /** Ends idle connections. The file system can still be used. */
  close?(): void;
}

export interface FileWaitOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface RemoveOptions extends FileWaitOptions {
  readonly recursive?: boolean | undefined;
}

export interface CreateOptions extends FileWaitOptions {
  /** Default: false, an existing file is an error. */
  readonly overwrite?: boolean | undefined;
  /** Mode bits of a new file, such as 0o600. Default: that of the file system. */
  readonly permission?: number | undefined;
}

export interface RenameOptions extends FileWaitOptions {
  /** Default: false. */
  readonly overwrite?: boolean | undefined;
}

export interface FileStatus {
  /** Absolute path or URL: every function takes it. */
  readonly location: string;
  /** The last part of the location. */
  readonly name: string;
  readonly kind: 'file' | 'folder';
  /** In bytes; 0 for a folder. */
  readonly size: number;
  readonly modifiedMs?: number | undefined;
  /** Of a web server: changes with the content. */
  readonly etag?: string | undefined;
  /** A number on this machine, a name on HDFS. */
  readonly owner?: number | string | undefined;
  /** Mode bits. */
  readonly permission?: number | undefined;
  /** A symbolic link to what the other properties describe. */
  readonly isLink?: true | undefined;
}

export interface ReadHandle extends AsyncDisposable {
  readonly location: string;
  readonly size: number;
  /** Reads must follow each other from position 0 on: the server does not support ranges. */
  readonly isSequential: boolean;
  /** Requests that had to be repeated so far. */
  readonly retries?: number | undefined;
  /** How many bytes: fewer than the target has only at the end of the file. Reads may overlap in time. */
  read(target: Uint8Array, position: number, options?: FileWaitOptions): Promise<number>;
  close(): Promise<void>;
}

export interface WriteHandle extends AsyncDisposable {
  readonly location: string;
  /** The bytes may be used again when it resolves. */
  write(bytes: Uint8Array): Promise<void>;
  /** The file is complete and durable when it resolves. */
  close(): Promise<void>;
  /** Gives the file up; what was written of it is removed. After close() it does nothing; disposing a handle calls it. */
  abort(): Promise<void>;
}

/** Why an operation failed, as far as programs care. */
export type FileProblem = 'missing' | 'exists' | 'forbidden' | 'not a folder' | 'changed' | 'unreachable';

/** The text names the location. `problem` is for problemOf(). */
export function fileError(text: string, problem?: FileProblem, cause?: unknown): HorovodError {
  const error = new HorovodError('ERR_HVD_FILE_SYSTEM', text, { cause });
  if (problem !== undefined) Object.defineProperty(error, 'problem', { value: problem });
  return error;
}

export function problemOf(error: unknown): FileProblem | undefined {
  return HorovodError.is(error) && error.code === 'ERR_HVD_FILE_SYSTEM'
    ? (error as { problem?: FileProblem }).problem
    : undefined;
}
