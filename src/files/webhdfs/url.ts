// Locations on HDFS, and the URLs of WebHDFS. The path of a location is literal, as in Hadoop; that of a URL is encoded by segment.

import { posix } from 'node:path';
import { splitRoot } from '../location.ts';

export interface HdfsLocation {
  readonly scheme: string;
  /** 'host:8020', 'nameservice' or '' for the default file system. */
  readonly authority: string;
  /** Absolute, without `.` and `..`. */
  readonly path: string;
}

export function parseHdfsLocation(location: string): HdfsLocation {
  const { root, path } = splitRoot(location);
  const [scheme = '', authority = ''] = root.split('://');
  const clean = posix.normalize(`/${path}`);
  return { scheme: scheme.toLowerCase(), authority, path: clean === '/' ? clean : clean.replace(/\/$/, '') };
}

export function formatHdfsLocation({ scheme, authority, path }: HdfsLocation): string {
  return `${scheme}://${authority}${path}`;
}

export type Parameters = Readonly<Record<string, string | number | boolean | undefined>>;

/** The URL of an operation at a namenode. */
export function operationUrl(namenode: URL, path: string, parameters: Parameters): URL {
  const url = new URL(namenode);
  url.pathname = `/webhdfs/v1${path.split('/').map(encodeURIComponent).join('/')}`;
  url.search = encodeParameters(parameters);
  return url;
}

function encodeParameters(parameters: Parameters): string {
  const entries = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return entries.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join('&');
}
