// Kinds of values that settings have: how their text is read, and what to tell somebody whose text is wrong.

import { isIP } from 'node:net';
import { JobSecret } from './job-secret.ts';

export interface Kind<T> {
  /** Completes 'expected …'. */
  readonly accepts: string;
  /** Undefined for text that is not accepted. */
  parse(text: string): T | undefined;
}

/** Timers of Node hold no more: 2^31 - 1 ms, almost 25 days. */
const longestMs = 2 ** 31 - 1;

export function wholeNumber(least = 0): Kind<number> {
  return {
    accepts: `a whole number ≥ ${least}`,
    parse(text) {
      const value = Number(text);
      return /^\d+$/.test(text.trim()) && Number.isSafeInteger(value) && value >= least ? value : undefined;
    },
  };
}

/** Text in seconds, value in milliseconds. */
export function seconds(options: { zero: boolean }): Kind<number> {
  return {
    accepts: `seconds, ${options.zero ? '0 or more' : 'more than 0'} (fractions are fine)`,
    parse(text) {
      const value = decimal(text);
      const ms = value === undefined ? undefined : value * 1000;
      return ms !== undefined && ms <= longestMs && (ms > 0 || options.zero) ? ms : undefined;
    },
  };
}

export const milliseconds: Kind<number> = {
  accepts: 'milliseconds, 0 or more (fractions are fine)',
  parse(text) {
    const value = decimal(text);
    return value !== undefined && value <= longestMs ? value : undefined;
  },
};

export const share: Kind<number> = {
  accepts: 'a number from 0 to 1',
  parse(text) {
    const value = decimal(text);
    return value !== undefined && value <= 1 ? value : undefined;
  },
};

export const truth: Kind<boolean> = {
  accepts: '1 or 0 (also true/false, yes/no, on/off)',
  parse(text) {
    const word = text.trim().toLowerCase();
    if (['1', 'true', 'yes', 'on'].includes(word)) return true;
    return ['0', 'false', 'no', 'off'].includes(word) ? false : undefined;
  },
};

/** For variables that turn something off. */
export const denial: Kind<boolean> = {
  accepts: truth.accepts,
  parse(text) {
    const value = truth.parse(text);
    return value === undefined ? undefined : !value;
  },
};

export function oneOf<T extends string>(...choices: readonly T[]): Kind<T> {
  return {
    accepts: `one of ${choices.join(', ')}`,
    parse: (text) => choices.find((choice) => choice === text.trim().toLowerCase()),
  };
}

export const anyText: Kind<string> = { accepts: 'text', parse: (text) => text };

export const portNumber: Kind<number> = {
  accepts: 'a port, 1 to 65535',
  parse(text) {
    const port = wholeNumber(1).parse(text);
    return port !== undefined && port < 65_536 ? port : undefined;
  },
};

/** An IPv6 address stands in brackets: [::1]:4000. */
export const hostAndPort: Kind<string> = {
  accepts: 'host:port',
  parse(text) {
    const port = /^(?:[^\s:,[\]]+|\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]):(\d{1,5})$/.exec(text.trim())?.[1] ?? '';
    return portNumber.parse(port) === undefined ? undefined : text.trim();
  },
};

export const addressList: Kind<string> = {
  accepts: 'host:port, or several with commas',
  parse(text) {
    const addresses = text.split(',').map((address) => hostAndPort.parse(address));
    return addresses.includes(undefined) ? undefined : addresses.join(',');
  },
};

/** Names of interfaces (eth0) and subnets or addresses (10.0.0.0/8, fd00::/8, 10.1.2.3). */
export const interfaceList: Kind<readonly string[]> = {
  accepts: 'names of network interfaces or subnets such as 10.0.0.0/8, with commas',
  parse: (text) => commaList(text, (item) => isSubnet(item) || /^[\w.@-]{1,32}$/.test(item)),
};

/** Names of variables, with `*` for any letters. */
export const nameList: Kind<readonly string[]> = {
  accepts: 'names of variables with commas; * stands for any letters',
  parse: (text) => commaList(text, (item) => /^[\w*.-]+$/.test(item)),
};

export const identifier: Kind<string> = {
  accepts: 'up to 64 letters, digits, dots, dashes and underscores',
  parse: (text) => (/^[\w.-]{1,64}$/.test(text) ? text : undefined),
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
