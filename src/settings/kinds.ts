// Kinds of values that settings have: how their text is parsed, and what an error says that they accept.

import { isIP } from 'node:net';
import { JobSecret } from './job-secret.ts';

export interface Kind<T> {
  /** Completes 'expected …'. */
  readonly accepts: string;
  /** If there are only a few. */
  readonly choices?: readonly string[];
  /** Undefined for text that is not accepted. */
  parse(text: string): T | undefined;
  /** A value as users read it, with its unit. */
  format?(value: T): string;
}

/** The longest time that Node's timers support: almost 25 days. */
const maxMs = 2 ** 31 - 1;

export function integer(min = 0): Kind<number> {
  return {
    accepts: `an integer ≥ ${min}`,
    parse(text) {
      const value = Number(text);
      return /^\d+$/.test(text.trim()) && Number.isSafeInteger(value) && value >= min ? value : undefined;
    },
  };
}

/** Text in seconds, value in milliseconds. */
export function seconds(options: { zero: boolean }): Kind<number> {
  return {
    accepts: `a number of seconds ${options.zero ? '≥' : '>'} 0, such as 30 or 0.5`,
    parse(text) {
      const value = decimal(text);
      const ms = value === undefined ? undefined : value * 1000;
      return ms !== undefined && ms <= maxMs && (ms > 0 || options.zero) ? ms : undefined;
    },
    format: (ms) => `${ms / 1000} s`,
  };
}

/** Two numbers of seconds, the smaller first. */
export const secondsRange: Kind<{ readonly minMs: number; readonly maxMs: number }> = {
  accepts: 'two numbers of seconds, MIN and MAX, such as 1 60',
  parse(text) {
    const [min, max, ...rest] = text
      .replaceAll(/[[\]]/g, ' ')
      .trim()
      .split(/[\s,]+/)
      .map(decimal);
    if (min === undefined || max === undefined || rest.length > 0 || min > max || max * 1000 > maxMs)
      return undefined;
    return { minMs: min * 1000, maxMs: max * 1000 };
  },
  format: ({ minMs, maxMs }) => `${minMs / 1000} ${maxMs / 1000}`,
};

export const milliseconds: Kind<number> = {
  accepts: 'a number of milliseconds ≥ 0, such as 5 or 0.5',
  parse(text) {
    const value = decimal(text);
    return value !== undefined && value <= maxMs ? value : undefined;
  },
  format: (ms) => `${ms} ms`,
};

export const fraction: Kind<number> = {
  accepts: 'a number from 0 to 1',
  parse(text) {
    const value = decimal(text);
    return value !== undefined && value <= 1 ? value : undefined;
  },
};

export const boolean: Kind<boolean> = {
  accepts: '1 or 0 (also true/false, yes/no, on/off)',
  parse(text) {
    const word = text.trim().toLowerCase();
    if (['1', 'true', 'yes', 'on'].includes(word)) return true;
    return ['0', 'false', 'no', 'off'].includes(word) ? false : undefined;
  },
  format: (value) => (value ? 'on' : 'off'),
};

/** For variables that turn something off. */
export const negatedBoolean: Kind<boolean> = {
  accepts: boolean.accepts,
  parse(text) {
    const value = boolean.parse(text);
    return value === undefined ? undefined : !value;
  },
};

export function oneOf<T extends string>(...choices: readonly T[]): Kind<T> {
  return {
    accepts: `one of ${choices.join(', ')}`,
    choices,
    parse: (text) => choices.find((choice) => choice === text.trim().toLowerCase()),
  };
}

export const anyText: Kind<string> = { accepts: 'text', parse: (text) => text };

export const portNumber: Kind<number> = {
  accepts: 'a port from 1 to 65535',
  parse(text) {
    const port = integer(1).parse(text);
    return port !== undefined && port < 65_536 ? port : undefined;
  },
};

/** 0: any free port. */
export const portOrAny: Kind<number> = {
  accepts: 'a port from 1 to 65535, or 0 for any free one',
  parse: (text) => (text.trim() === '0' ? 0 : portNumber.parse(text)),
};

/** IPv6 addresses are written in brackets: [::1]:4000. */
export const hostAndPort: Kind<string> = {
  accepts: 'host:port',
  parse(text) {
    const port = /^(?:[^\s:,[\]]+|\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]):(\d{1,5})$/.exec(text.trim())?.[1] ?? '';
    return portNumber.parse(port) === undefined ? undefined : text.trim();
  },
};

export const addressList: Kind<string> = {
  accepts: 'host:port, or several separated by commas',
  parse(text) {
    const addresses = text.split(',').map((address) => hostAndPort.parse(address));
    return addresses.includes(undefined) ? undefined : addresses.join(',');
  },
};

/** Names of interfaces (eth0) and subnets or addresses (10.0.0.0/8, fd00::/8, 10.1.2.3). */
export const interfaceList: Kind<readonly string[]> = {
  accepts: 'network interfaces or subnets such as 10.0.0.0/8, separated by commas',
  parse: (text) => commaList(text, (item) => isSubnet(item) || /^[\w.@-]{1,32}$/.test(item)),
};

/** Names of variables; `*` matches any characters. */
export const nameList: Kind<readonly string[]> = {
  accepts: 'names of variables separated by commas; * matches any characters',
  parse: (text) => commaList(text, (item) => /^[\w*.-]+$/.test(item)),
};

/** For a server behind other names: each with a port or without. */
export const hostNameList: Kind<readonly string[]> = {
  accepts: 'names of hosts separated by commas, each NAME or NAME:PORT',
  parse: (text) => commaList(text, (item) => /^([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?$/i.test(item)),
};

export const identifier: Kind<string> = {
  accepts: 'up to 64 letters, digits, dots, dashes and underscores',
  parse: (text) => (/^[\w.-]{1,64}$/.test(text) ? text : undefined),
};

/** Texts by name. In a variable, each is on a line of its own. */
export const parameterList: Kind<ReadonlyMap<string, string>> = {
  accepts: 'name=value, of several each on a line of its own',
  parse(text) {
    const entries = text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => /^\s*([\p{ID_Start}$_][\p{ID_Continue}$]*)=(.*)$/u.exec(line));
    if (entries.includes(null)) return undefined;
    return new Map(entries.map((match) => [match?.[1] as string, match?.[2] as string]));
  },
  format: (value) => [...value].map(([name, text]) => `${name}=${text}`).join(' '),
};

export const secretKey: Kind<JobSecret> = {
  accepts: '32 bytes in hex',
  parse: (text) => JobSecret.fromHex(text),
};

function commaList(text: string, isItem: (item: string) => boolean): readonly string[] | undefined {
  const items = text.split(',').map((item) => item.trim());
  return items.every(isItem) ? [...new Set(items)] : undefined;
}

function isSubnet(text: string): boolean {
  const [address = '', bits] = text.split('/');
  const family = isIP(address);
  if (family === 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

function decimal(text: string): number | undefined {
  return /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined;
}
