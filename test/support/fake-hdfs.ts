// A namenode and a datanode of WebHDFS in this process, with files in memory, as far as our client uses them: redirects, the odd
// answers of the real ones, and whatever else a test scripts.

import type { ServerResponse } from 'node:http';
import { type ReceivedRequest, type ScriptedServer, startScriptedServer } from './scripted-server.ts';

export interface FakeHdfs extends AsyncDisposable {
  readonly namenode: ScriptedServer;
  readonly datanode: ScriptedServer;
  /** By path; undefined is a folder. */
  readonly files: Map<string, Buffer | undefined>;
  /** Asked before every answer; true: it has answered itself. */
  atNamenode: (request: ReceivedRequest, response: ServerResponse) => boolean;
  atDatanode: (request: ReceivedRequest, response: ServerResponse) => boolean;
  /** Where the namenode sends clients. */
  datanodeHost: string;
}

export const blockSize: number = 1024;

export async function startFakeHdfs(): Promise<FakeHdfs> {
  const files = new Map<string, Buffer | undefined>([['/', undefined]]);
  const datanode = await startScriptedServer((request, response) => {
    if (!hdfs.atDatanode(request, response)) answerTransfer(files, request, response);
  });
  const namenode = await startScriptedServer((request, response) => {
    if (!hdfs.atNamenode(request, response)) answerOperation(hdfs, request, response);
  });
  const hdfs: FakeHdfs = {
    namenode,
    datanode,
    files,
    atNamenode: () => false,
    atDatanode: () => false,
    datanodeHost: datanode.host,
    async [Symbol.asyncDispose]() {
      await namenode[Symbol.asyncDispose]();
      await datanode[Symbol.asyncDispose]();
    },
  };
  return hdfs;
}

export function remoteException(
  response: ServerResponse,
  status: number,
  exception: string,
  message: string,
): true {
  const body = { RemoteException: { exception, javaClassName: `org.apache.${exception}`, message } };
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
  return true;
}

export const opOf = ({ url }: ReceivedRequest): string => url.searchParams.get('op') ?? '';
const pathOf = ({ url }: ReceivedRequest): string =>
  decodeURIComponent(url.pathname.replace('/webhdfs/v1', '')) || '/';

function answerOperation(hdfs: FakeHdfs, request: ReceivedRequest, response: ServerResponse): unknown {
  const { files } = hdfs;
  const path = pathOf(request);
  const json = (value: unknown) => response.end(JSON.stringify(value));
  const missing = () =>
    void remoteException(response, 404, 'FileNotFoundException', `File does not exist: ${path}`);
  const statusOf = (name: string, suffix: string) => ({
    pathSuffix: suffix,
    type: files.get(name) === undefined ? 'DIRECTORY' : 'FILE',
    length: files.get(name)?.length ?? 0,
    blockSize,
    modificationTime: 1234,
    owner: 'hvd',
    permission: '644',
  });
  switch (opOf(request)) {
    case 'GETFILESTATUS':
      return files.has(path) ? json({ FileStatus: statusOf(path, '') }) : missing();
    case 'LISTSTATUS_BATCH': {
      if (!files.has(path)) return missing();
      const after = request.url.searchParams.get('startAfter') ?? '';
      const folder = path === '/' ? path : `${path}/`;
      const names =
        files.get(path) === undefined
          ? [...files.keys()].filter(
              (name) => name !== '/' && name.startsWith(folder) && !name.slice(folder.length).includes('/'),
            )
          : [path];
      const left = names
        .map((name) => name.slice(folder.length))
        .sort()
        .filter((name) => name > after || name === '');
      const page = left.slice(0, 2);
      const FileStatus = page.map((suffix) => statusOf(suffix === '' ? path : folder + suffix, suffix));
      return json({
        DirectoryListing: {
          partialListing: { FileStatuses: { FileStatus } },
          remainingEntries: left.length - page.length,
        },
      });
    }
    case 'MKDIRS':
      path
        .split('/')
        .slice(1)
        .reduce((parent, name) => {
          files.set(`${parent}/${name}`, undefined);
          return `${parent}/${name}`;
        }, '');
      return json({ boolean: true });
    case 'DELETE': {
      const below = [...files.keys()].filter((name) => name === path || name.startsWith(`${path}/`));
      if (below.length > 1 && request.url.searchParams.get('recursive') !== 'true') {
        return remoteException(response, 403, 'PathIsNotEmptyDirectoryException', `${path} is non empty`);
      }
      for (const name of below) files.delete(name);
      return json({ boolean: below.length > 0 });
    }
    case 'RENAME': {
      const target = request.url.searchParams.get('destination') ?? '';
      const overwrite = request.url.searchParams.get('renameoptions') === 'OVERWRITE';
      if (!overwrite && (!files.has(path) || files.has(target))) return json({ boolean: false });
      if (!files.has(path)) return missing();
      files.set(target, files.get(path));
      files.delete(path);
      return overwrite ? void response.end() : json({ boolean: true });
    }
    case 'OPEN':
    case 'APPEND':
      if (!files.has(path)) return missing();
      break;
    case 'CREATE':
      break;
    default:
      return remoteException(
        response,
        400,
        'IllegalArgumentException',
        'Invalid value for webhdfs parameter "op"',
      );
  }
  const url = new URL(request.url);
  url.host = hdfs.datanodeHost;
  return response.writeHead(307, { Location: url.href }).end();
}

function answerTransfer(
  files: Map<string, Buffer | undefined>,
  request: ReceivedRequest,
  response: ServerResponse,
): unknown {
  const path = pathOf(request);
  const { searchParams } = request.url;
  if (request.method !== 'GET') response.writeContinue();
  if (opOf(request) === 'OPEN') {
    const [offset, length] = [Number(searchParams.get('offset')), Number(searchParams.get('length'))];
    const content = files.get(path) ?? Buffer.alloc(0);
    if (offset >= content.length)
      return remoteException(response, 403, 'IOException', 'Offset is out of the range');
    return response.end(content.subarray(offset, offset + length));
  }
  if (opOf(request) === 'APPEND') {
    files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), request.body]));
    return response.writeHead(200).end();
  }
  if (files.has(path) && searchParams.get('overwrite') !== 'true') {
    return remoteException(
      response,
      403,
      'FileAlreadyExistsException',
      `${path} for client 127.0.0.1 already exists`,
    );
  }
  files.set(path, request.body);
  return response.writeHead(201).end();
}
