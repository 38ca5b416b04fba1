// Which namenodes a location means, and where their WebHDFS listens: HOROVOD_WEBHDFS, else hdfs-site.xml and core-site.xml of
// HADOOP_CONF_DIR, else port 9870 of the host in the URL.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HorovodError } from '../../errors.ts';
import type { FileSettings } from '../../settings/table.ts';
import { fileError } from '../file-system.ts';
import { type HdfsLocation, parseHdfsLocation } from './url.ts';

const defaultPorts = { 'http:': 9870, 'https:': 9871 } as const;

export type HadoopConfiguration = ReadonlyMap<string, string>;

/** The HTTP addresses of the namenodes, at least one. */
export function namenodesOf(
  { scheme, authority }: Pick<HdfsLocation, 'scheme' | 'authority'>,
  settings: Pick<FileSettings, 'webHdfs'>,
  configuration: HadoopConfiguration,
): URL[] {
  const protocol = scheme === 'swebhdfs' ? 'https:' : 'http:';
  if (scheme === 'hdfs' && settings.webHdfs !== undefined) {
    return settings.webHdfs
      .split(',')
      .map((address) => addressOf(address.trim(), 'http:', 'HOROVOD_WEBHDFS'));
  }
  const place = authority === '' ? defaultAuthority(configuration) : authority;
  const fromFiles = configuredAddresses(place, scheme === 'hdfs', protocol, configuration);
  if (fromFiles.length > 0) return fromFiles;
  if (scheme !== 'hdfs') return [addressOf(place, protocol, `${scheme}://`)];
  return [addressOf(hostOf(place), protocol, `${scheme}://`)];
}

/** Of core-site.xml. */
function defaultAuthority(configuration: HadoopConfiguration): string {
  const defaultFs = configuration.get('fs.defaultFS') ?? configuration.get('fs.default.name');
  const { authority } = parseHdfsLocation(defaultFs ?? '');
  if (authority !== '') return authority;
  throw fileError(
    'hdfs:/// means the default file system, and none is known. Set HADOOP_CONF_DIR to the folder of core-site.xml, set ' +
      'HOROVOD_WEBHDFS=namenode:9870, or write the host: hdfs://namenode:8020/….',
  );
}

function configuredAddresses(
  authority: string,
  isRpc: boolean,
  protocol: 'http:' | 'https:',
  configuration: HadoopConfiguration,
): URL[] {
  const isSecure = protocol === 'https:' || configuration.get('dfs.http.policy') === 'HTTPS_ONLY';
  const key = `dfs.namenode.${isSecure ? 'https' : 'http'}-address`;
  const own = isSecure ? 'https:' : 'http:';
  const services = listOf(configuration.get('dfs.nameservices'));
  const nodes = listOf(configuration.get(`dfs.ha.namenodes.${authority}`));
  const suffixes = nodes.length > 0 ? nodes.map((node) => `.${authority}.${node}`) : [`.${authority}`];
  const addresses = suffixes.flatMap((suffix) => {
    const address = configuration.get(`${key}${suffix}`);
    if (address !== undefined) return [addressOf(address, own, `${key}${suffix}`)];
    const rpc = configuration.get(`dfs.namenode.rpc-address${suffix}`);
    return rpc === undefined ? [] : [addressOf(hostOf(rpc), own, `dfs.namenode.rpc-address${suffix}`)];
  });
  if (addresses.length > 0 || services.includes(authority) || !isRpc) return addresses;
  // One namenode without a nameservice: the files describe it if it is their default.
  const address = configuration.get(key);
  const isDefault = parseHdfsLocation(configuration.get('fs.defaultFS') ?? '').authority === authority;
  if (address === undefined || !isDefault) return [];
  const url = addressOf(address, own, key);
  if (['0.0.0.0', '[::]'].includes(url.hostname)) url.hostname = hostOf(authority);
  return [url];
}

function addressOf(text: string, protocol: 'http:' | 'https:', source: string): URL {
  const withScheme = /^https?:\/\//.test(text) ? text : `${protocol}//${text}`;
  if (!URL.canParse(withScheme) || text === '') {
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `${source} is ${JSON.stringify(text)}; expected host:port or http(s)://host:port, such as namenode:9870.`,
    );
  }
  const url = new URL(withScheme);
  // A URL drops the port that is the default of its scheme: who writes :80 means it.
  const hasPort = /:\d+\/?$/.test(withScheme);
  if (!hasPort) url.port = String(defaultPorts[url.protocol as keyof typeof defaultPorts]);
  return new URL(url.origin);
}

function hostOf(authority: string): string {
  return authority.replace(/:\d+$/, '');
}

function listOf(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** The properties of core-site.xml and hdfs-site.xml; none without a folder. A file that is not there has none. */
export async function readHadoopConfiguration(folder: string | undefined): Promise<HadoopConfiguration> {
  const properties = new Map<string, string>();
  if (folder === undefined) return properties;
  for (const name of ['core-site.xml', 'hdfs-site.xml']) {
    const path = join(folder, name);
    try {
      for (const [key, value] of parseHadoopXml(await readFile(path, 'utf8'))) properties.set(key, value);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ENOENT') continue;
      throw fileError(
        `Cannot read ${path} (HADOOP_CONF_DIR): ${(cause as Error).message}.`,
        undefined,
        cause,
      );
    }
  }
  return properties;
}

/** Names and values of `<property>` elements; ${name} in a value stands for another one. */
export function parseHadoopXml(text: string): Map<string, string> {
  const properties = new Map<string, string>();
  const plain = text.replaceAll(/<!--[\s\S]*?-->/g, '');
  for (const [, body = ''] of plain.matchAll(/<property>([\s\S]*?)<\/property>/g)) {
    const name = /<name>([\s\S]*?)<\/name>/.exec(body)?.[1];
    const value = /<value>([\s\S]*?)<\/value>/.exec(body)?.[1];
    if (name !== undefined && value !== undefined) properties.set(plainText(name), plainText(value));
  }
  for (const [name, value] of properties) {
    properties.set(
      name,
      value.replaceAll(/\$\{([^}]+)\}/g, (whole, other: string) => properties.get(other) ?? whole),
    );
  }
  return properties;
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function plainText(text: string): string {
  const cdata = /^\s*<!\[CDATA\[([\s\S]*?)\]\]>\s*$/.exec(text)?.[1];
  if (cdata !== undefined) return cdata;
  return text.trim().replaceAll(/&(\w+|#\d+|#x[0-9a-fA-F]+);/g, (whole, name: string) => {
    if (name.startsWith('#x')) return String.fromCodePoint(Number.parseInt(name.slice(2), 16));
    if (name.startsWith('#')) return String.fromCodePoint(Number(name.slice(1)));
    return entities[name] ?? whole;
  });
}
