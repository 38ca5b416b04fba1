// What a setting is: one entry of the table (table.ts), from which flags, variables, config keys, --help and the
// reference page are derived.

import { HorovodError } from '../errors.ts';
import type { Kind } from './kinds.ts';

export type Setting<T> = SettingBase<T> &
  (undefined extends T ? { readonly default?: T } : { readonly default: T });

interface SettingBase<T> {
  readonly group: SettingGroup;
  readonly env?: string;
  /** Other variables with the same meaning, read if the first one is not set. */
  readonly alsoEnv?: readonly { readonly env: string; readonly kind: Kind<NonNullable<T>> }[];
  readonly flags?: readonly Flag[];
  readonly yaml?: {
    readonly key: string;
    readonly kind?: Kind<NonNullable<T>>;
    readonly toText?: (text: string) => string;
  };
  readonly kind: Kind<NonNullable<T>>;
  /** The default as shown to users, if it differs from the value. */
  readonly defaultText?: string;
  /** What it does, for --help and the reference page. */
  readonly text: string;
  /** Never printed. */
  readonly isSecret?: true;
  /** Set by horovodrun for every rank, not by users. */
  readonly isGiven?: true;
}

export type Flag =
  /** Takes a value: `--start-timeout 30`. */
  | {
      readonly names: readonly string[];
      /** What --help calls the value. */
      readonly operand: string;
      /** The value may be left out, and is then this one; given, it comes after an equals sign: `--tensorboard=6006`. */
      readonly bare?: string;
      /** For a flag whose unit differs from the variable's. */
      readonly kind?: Kind<unknown>;
      readonly toText?: (text: string) => string;
      /** If repeated, values are joined with this; otherwise the last one counts. */
      readonly joinedWith?: ',' | '\n';
      /** Takes two values: `--cooldown-range 1 60`. */
      readonly isPair?: true;
    }
  /** Takes no value and stands for `text`. */
  | { readonly names: readonly string[]; readonly text: string; readonly isHidden?: true };

/** In the order of --help. */
export const settingGroups = [
  'Launching',
  'Hosts',
  'Elastic training',
  'Output',
  'Transport and network',
  'Collectives',
  'Autotune',
  'Files',
  'Monitoring and logging',
  'mpirun',
  'Information',
  'Set by horovodrun',
] as const;
export type SettingGroup = (typeof settingGroups)[number];

/** One entry for each property of T. */
export type SettingsOf<T> = { readonly [K in keyof T]-?: Setting<T[K]> };

/** The error for a wrong flag, variable or config key. */
export function settingError(message: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', message);
}

/** The entries of one group. */
export function inGroup<const E extends Readonly<Record<string, object>>>(
  group: SettingGroup,
  entries: E,
): { readonly [K in keyof E]: E[K] & { readonly group: SettingGroup } } {
  const grouped = Object.entries(entries).map(([name, entry]) => [name, { ...entry, group }]);
  return Object.fromEntries(grouped);
}

/** --name for 1, and --no-name for 0, which --help leaves out. */
export function onOff(name: string): readonly Flag[] {
  return [
    { names: [`--${name}`], text: '1' },
    { names: [`--no-${name}`], text: '0', isHidden: true },
  ];
}
