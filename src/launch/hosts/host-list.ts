// Hosts and their slots as users write them: `-H a:2,b:4`, or a file with a line `a slots=2` for each host. A host is a
// name, an address, or an IPv6 address in brackets.

import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { settingError } from '../../settings/setting.ts';

export interface Host {
  readonly name: string;
  readonly slots: number;
}

export function parseHosts(text: string): Host[] {
  const hosts = text.split(',').map((entry) => {
    const match = /^(\[[^\]]*\]|[^:]+):(\d+)$/.exec(entry.trim());
    const name = hostName(match?.[1] ?? '');
    if (match === null || name === undefined) {
      throw settingError(
        `-H: ${JSON.stringify(entry.trim())} is not of the form HOST:SLOTS, such as localhost:2.`,
      );
    }
    return { name, slots: Number(match[2]) };
  });
  return checked(hosts, '-H');
}

export function readHostfile(path: string): Host[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw settingError(`cannot read the hostfile ${path}: ${(error as Error).message}.`);
  }
  return parseHostfile(text, path);
}

/** Blank lines and comments (#) are allowed. */
export function parseHostfile(text: string, path: string): Host[] {
  const hosts = text.split('\n').flatMap((line, index) => {
    const content = line.replace(/#.*/, '').trim();
    if (content === '') return [];
    const match = /^(\S+)\s+slots\s*=\s*(\d+)$/.exec(content);
    const name = hostName(match?.[1] ?? '');
    if (match === null || name === undefined) {
      throw settingError(
        `${path}:${index + 1}: ${JSON.stringify(content)} is not of the form \`HOST slots=N\`.`,
      );
    }
    return [{ name, slots: Number(match[2]) }];
  });
  if (hosts.length === 0)
    throw settingError(`${path} lists no hosts. Add a line \`HOST slots=N\` for each host.`);
  return checked(hosts, path);
}

/** Without brackets. Rejects names that look like options of ssh. */
export function hostName(text: string): string | undefined {
  if (/^\w[\w.-]*$/.test(text)) return text;
  const address = /^\[(.*)\]$/.exec(text)?.[1] ?? text;
  return isIPv6(address) ? address : undefined;
}

function checked(hosts: Host[], source: string): Host[] {
  const names = new Set<string>();
  for (const { name, slots } of hosts) {
    if (names.has(name))
      throw settingError(`${source}: ${name} is listed twice. Combine its slots in one entry.`);
    if (slots < 1) throw settingError(`${source}: ${name} has no slots. Give it at least one, or remove it.`);
    names.add(name);
  }
  return hosts;
}
