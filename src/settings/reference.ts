// The pages docs/reference/settings.md and errors.md, which scripts/generate-reference.mjs writes from the tables.

import { errorCodes } from '../errors.ts';
import { foreignFlags } from './foreign-flags.ts';
import { defaultText, flagText, isSwitchOnly, settingsOf, variablesOf } from './help.ts';
import { type Setting, settingGroups } from './table.ts';

const generated = '<!-- Written by scripts/generate-reference.mjs; do not edit by hand. -->';

export function settingsReference(): string {
  const parts = [
    '# Settings',
    generated,
    'You can set each of these with a flag of `horovodrun`, with a key in the YAML file that `--config-file` names, or ' +
      'with an environment variable. Flags override the file, and the file overrides the environment. Jobs that are ' +
      'started without `horovodrun` use the environment variables.',
  ];
  for (const group of settingGroups) {
    const rows = settingsOf(group).map(row);
    parts.push(
      `## ${group}`,
      table(['Flag', 'Variable', 'Config key', 'Default', 'Accepts', 'Description'], rows),
    );
  }
  for (const [title, treatment] of [
    ['Flags of Python Horovod that have no effect here', 'without effect'],
    ['Flags of Python Horovod that are not supported', 'rejected'],
  ] as const) {
    const rows = foreignFlags
      .filter((flag) => flag.treatment === treatment)
      .map((flag) => [
        flag.names.map(code).join(', '),
        flag.yaml === undefined ? '' : code(flag.yaml),
        flag.reason,
      ]);
    parts.push(`## ${title}`, table(['Flag', 'Config key', 'Reason'], rows));
  }
  return `${parts.join('\n\n')}\n`;
}

export function errorsReference(): string {
  const rows = Object.entries(errorCodes).map(([name, meaning]) => [code(name), meaning]);
  const text =
    'Every error that this package throws is a `HorovodError`. Programs should check its `code`. The message names the ' +
    'rank and the operation and says what to do; its wording may change between versions.';
  return `${['# Error codes', generated, text, table(['Code', 'Meaning'], rows)].join('\n\n')}\n`;
}

function row(setting: Setting<unknown>): string[] {
  return [
    (setting.flags ?? []).map((flag) => code(flagText(flag))).join(', '),
    variablesOf(setting).map(code).join(', '),
    setting.yaml === undefined ? '' : code(setting.yaml.key),
    prose(defaultText(setting)),
    isSwitchOnly(setting) ? '' : setting.kind.accepts,
    prose(setting.text),
  ];
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Escapes what Markdown would take for an HTML tag, except within code. */
function prose(text: string): string {
  return text
    .split('`')
    .map((part, index) => (index % 2 === 0 ? part.replaceAll('<', '\\<') : part))
    .join('`');
}

function code(text: string): string {
  return `\`${text}\``;
}
