// What `horovodrun --help` prints. It is generated from the table, so no flag can be missing.

import { foreignFlags } from './foreign-flags.ts';
import { type Flag, launchTable, type Setting, settingGroups, settingsTable } from './table.ts';

/** Where descriptions start, and where they are wrapped. */
const descriptionColumn = 30;
const maxColumns = 110;

const head = `Usage: horovodrun -np N [options] COMMAND [ARGUMENTS]
       horovodrun --check-build | --version | --help

Start N copies of a command (the ranks of a job) on one or more hosts. COMMAND is any program, or a script
(.js, .mjs, .cjs, .ts, .mts, .cts) or a notebook (.ipynb), which runs with this version of Node. TypeScript needs no
build step.

Examples:
  horovodrun -np 2 train.ts                                Run two ranks on this host
  horovodrun -np 2 train.ipynb                             Run the cells of a notebook on two ranks
  horovodrun -np 4 -H server1:2,server2:2 train.ts         Run two ranks on each of two hosts, over ssh
  horovodrun -np 4 -H server1:2,server2:2 --mpi train.ts   The same with mpirun and MPI
  horovodrun -np 2 --output-filename logs train.ts         Also save the output of each rank in logs/rank.<rank>/
  horovodrun -np 2 --transport portable train.ts           Run without the native addon`;

const tail = `If a rank fails, horovodrun stops the others (SIGTERM, then SIGKILL after 5 s), prints a report and exits with
the exit code of the rank that failed first (128 + signal number if a signal ended it). Usage errors exit with 2.

To see what the ranks of a running job are doing, run \`horovod status\` in another terminal.
See also \`horovod --help\`.`;

export function helpText(): string {
  const sections = [head];
  for (const group of settingGroups) {
    const entries = settingsOf(group).filter(({ flags }) => flags !== undefined);
    if (entries.length > 0) sections.push(section(group, entries.map(describe)));
  }
  const variables = settingGroups.flatMap((group) =>
    settingsOf(group).filter(({ flags, isGiven }) => flags === undefined && !isGiven),
  );
  sections.push(section('Environment variables without a flag', variables.map(describe)));
  sections.push(section('Flags of Python Horovod that have no effect here', foreign('without effect')));
  sections.push(section('Flags of Python Horovod that are not supported', foreign('rejected')));
  sections.push(tail);
  return `${sections.join('\n\n')}\n`;
}

/** '-np, --num-proc N' */
export function flagText(flag: Flag): string {
  if ('bare' in flag) return `${flag.names.join(', ')}[=${flag.operand}]`;
  return `${flag.names.join(', ')}${'operand' in flag ? ` ${flag.operand}` : ''}`;
}

/** The one that is read first, then its other names. */
export function variablesOf(setting: Setting<unknown>): string[] {
  const others = (setting.alsoEnv ?? []).map(({ env }) => env);
  return setting.env === undefined ? others : [setting.env, ...others];
}

/** The default as users write it; empty for a flag that only turns something on. */
export function defaultText(setting: Setting<unknown>): string {
  if (setting.defaultText !== undefined) return setting.defaultText;
  if (isSwitchOnly(setting)) return '';
  if (setting.default === undefined) return 'none';
  return setting.kind.format?.(setting.default as NonNullable<unknown>) ?? String(setting.default);
}

/** Neither its flags nor a variable take a value. */
export function isSwitchOnly({ env, flags }: Setting<unknown>): boolean {
  return env === undefined && (flags ?? []).every((flag) => !('operand' in flag));
}

export function settingsOf(group: string): Setting<unknown>[] {
  const all = [...Object.values(launchTable), ...Object.values(settingsTable)] as Setting<unknown>[];
  return all.filter((setting) => setting.group === group);
}

interface HelpEntry {
  readonly title: string;
  readonly text: string;
  /** Shown in brackets after the text. */
  readonly remarks: readonly string[];
}

function describe(setting: Setting<unknown>): HelpEntry {
  const flags = (setting.flags ?? []).filter((flag) => !('isHidden' in flag));
  const isSwitch = flags.length > 0 && flags.every((flag) => !('operand' in flag));
  const { choices } = setting.kind;
  const fallback = defaultText(setting);
  return {
    title: flags.length > 0 ? flags.map(flagText).join(', ') : `${setting.env}`,
    text: setting.text,
    remarks: [
      ...(choices === undefined ? [] : [`choices: ${choices.join(', ')}`]),
      ...(fallback === 'required' ? [fallback] : []),
      ...(['', 'none', 'required'].includes(fallback) || (isSwitch && fallback === 'off')
        ? []
        : [`default: ${fallback}`]),
      ...(flags.length > 0 && setting.env !== undefined ? [`env: ${variablesOf(setting).join(', ')}`] : []),
    ],
  };
}

function foreign(treatment: (typeof foreignFlags)[number]['treatment']): HelpEntry[] {
  return foreignFlags
    .filter((flag) => flag.treatment === treatment)
    .map(({ names, reason }) => ({ title: names.join(', '), text: reason, remarks: [] }));
}

function section(title: string, entries: readonly HelpEntry[]): string {
  return [`${title}:`, ...entries.flatMap(layOut)].join('\n');
}

/** The title and, beside it or below it, its text. */
function layOut({ title, text, remarks }: HelpEntry): string[] {
  const margin = ' '.repeat(descriptionColumn);
  const words = [...text.split(' '), ...remarks.map((remark) => `[${remark}]`)];
  const lines = wrap(words, maxColumns - descriptionColumn).map((line) => margin + line);
  const start = `  ${title}`;
  if (start.length + 2 > descriptionColumn) return [start, ...lines];
  return [start.padEnd(descriptionColumn) + lines[0]?.trimStart(), ...lines.slice(1)];
}

function wrap(words: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  for (const word of words) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= columns)
      lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}
