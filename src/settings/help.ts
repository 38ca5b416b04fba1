// What `horovodrun --help` prints: made from the table, so that it cannot forget a flag.

import { foreignFlags } from './foreign-flags.ts';
import { type Flag, launchTable, type Setting, settingGroups, settingsTable } from './table.ts';

const head = `Usage: horovodrun -np N [flags] command [arguments]
       horovodrun --check-build | --version | --help

Starts N copies of a command, the ranks, on one host or several, and lets them work together. The command is anything that can be run;
a script (.js, .mjs, .cjs, .ts, .mts, .cts) is run with this Node, TypeScript without a build step.

Examples:
  horovodrun -np 2 train.ts                             two ranks on this host
  horovodrun -np 4 -H server1:2,server2:2 train.ts      two ranks on each of two hosts, reached by ssh
  horovodrun -np 4 -H server1:2,server2:2 --mpi train.ts   the same by mpirun, and bytes moved by MPI
  horovodrun -np 2 --output-filename logs train.ts      also keeps the output of each rank in logs/rank.<rank>/
  HOROVOD_NATIVE=0 horovodrun -np 2 train.ts            without the native addon`;

const tail = `The first rank that fails decides: the others are ended (SIGTERM, after 5 s SIGKILL), a report says what
happened, and horovodrun exits with that rank's code (128 + number of the signal that ended it).
Usage errors exit with 2.

\`horovod status\` in another terminal shows what the ranks of a running job are doing; \`horovod --help\` has more.`;

export function helpText(): string {
  const sections = [head];
  for (const group of settingGroups) {
    const lines = settingsOf(group).flatMap((setting) =>
      setting.flags === undefined ? [] : describe(setting),
    );
    if (lines.length > 0) sections.push([`${group}:`, ...lines].join('\n'));
  }
  const variables = settingGroups.flatMap((group) =>
    settingsOf(group).filter((setting) => setting.flags === undefined && !setting.isGiven),
  );
  sections.push(['Environment variables without a flag:', ...variables.flatMap(describe)].join('\n'));
  sections.push(['Accepted from Python Horovod, without effect here:', ...foreign('accepted')].join('\n'));
  sections.push(
    ['Flags of Python Horovod that are refused in this version:', ...foreign('refused')].join('\n'),
  );
  sections.push(tail);
  return `${sections.join('\n\n')}\n`;
}

/** '-np N, --num-proc N' */
export function flagText(flag: Flag): string {
  return flag.names.map((name) => ('operand' in flag ? `${name} ${flag.operand}` : name)).join(', ');
}

/** The one that counts first, then other names for it. */
export function variablesOf(setting: Setting<unknown>): string[] {
  const others = (setting.alsoEnv ?? []).map(({ env }) => env);
  return setting.env === undefined ? others : [setting.env, ...others];
}

/** The default as users write it. */
export function defaultText(setting: Setting<unknown>): string {
  return setting.defaultText ?? String(setting.default);
}

export function settingsOf(group: string): Setting<unknown>[] {
  const all = [...Object.values(launchTable), ...Object.values(settingsTable)] as Setting<unknown>[];
  return all.filter((setting) => setting.group === group);
}

function describe(setting: Setting<unknown>): string[] {
  const spelled = (setting.flags ?? []).filter((flag) => !('isHidden' in flag)).map(flagText);
  const title = spelled.length > 0 ? spelled.join(', ') : `${setting.env}=…`;
  const remarks = [
    spelled.length > 0 ? variablesOf(setting).join(', ') : '',
    /^(|required)$/.test(defaultText(setting)) ? defaultText(setting) : `default: ${defaultText(setting)}`,
  ].filter((remark) => remark !== '');
  return [`  ${title}`, `      ${setting.text}${remarks.length > 0 ? ` (${remarks.join('; ')})` : ''}`];
}

function foreign(treatment: 'accepted' | 'refused'): string[] {
  return foreignFlags
    .filter((flag) => flag.treatment === treatment)
    .map((flag) => `  ${flag.names.join(', ')}: ${flag.reason}`);
}
