// The pages docs/reference/settings.md and errors.md, written by scripts/generate-reference.mjs from the tables.

import { errorCodes } from '../errors.ts';
import { foreignFlags } from './foreign-flags.ts';
import { defaultText, flagText, settingsOf, variablesOf } from './help.ts';
import { type Setting, settingGroups } from './table.ts';

const generated = '<!-- Written by scripts/generate-reference.mjs; do not edit by hand. -->';

export function settingsReference(): string {
  const parts = [
    '# Settings',
    generated,
    'A setting can be given as a flag of `horovodrun`, as a key of the YAML file named by `--config-file`, or as an ' +
      'environment variable. Flags win over the file, the file wins over the environment. Without `horovodrun` the ' +
      'environment variables count.',
  ];
  for (const group of settingGroups) {
    const rows = settingsOf(group).map(row);
    parts.push(
      `## ${group}`,
      table(['flag', 'variable', 'config key', 'default', 'accepts', 'what it does'], rows),
    );
  }
  for (const [title, treatment] of [
    ['Flags of Python Horovod accepted without effect', 'accepted'],
    ['Flags of Python Horovod refused in this version', 'refused'],
  ] as const) {
    const rows = foreignFlags
      .filter((flag) => flag.treatment === treatment)
      .map((flag) => [
        flag.names.map(code).join(', '),
        flag.yaml === undefined ? '' : code(flag.yaml),
        flag.reason,
      ]);
    parts.push(`## ${title}`, table(['flag', 'config key', 'why'], rows));
  }
  return `${parts.join('\n\n')}\n`;
}

export function errorsReference(): string {
  const rows = Object.entries(errorCodes).map(([name, meaning]) => [code(name), meaning]);
  const text =
    'Every error of this package is a `HorovodError`. Match on its `code`; the message says which rank, which ' +
    'operation and what to do, and may change between versions.';
  return `${['# Error codes', generated, text, table(['code', 'meaning'], rows)].join('\n\n')}\n`;
}

function row(setting: Setting<unknown>): string[] {
  return [
    (setting.flags ?? []).map((flag) => code(flagText(flag))).join(', '),
    variablesOf(setting).map(code).join(', '),
    setting.yaml === undefined ? '' : code(setting.yaml.key),
    defaultText(setting),
    isSwitchOnly(setting) ? '' : setting.kind.accepts,
    setting.text,
  ];
}

function isSwitchOnly(setting: Setting<unknown>): boolean {
  return setting.env === undefined && (setting.flags ?? []).every((flag) => !('operand' in flag));
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}
