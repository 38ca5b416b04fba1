// What `horovod doctor` finds, and how it is printed.

export interface Finding {
  /** 'absent': not there, and not needed for most jobs. */
  readonly state: 'ok' | 'absent' | 'failed';
  readonly name: string;
  readonly detail: string;
  /** One command, or one sentence, that helps. */
  readonly advice?: string | undefined;
}

export interface Section {
  readonly title: string;
  readonly findings: readonly Finding[];
}

const marks: Readonly<Record<Finding['state'], string>> = { ok: '✔', absent: '–', failed: '✖' };

export function renderSection({ title, findings }: Section): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const lines = findings.flatMap(({ state, name, detail, advice }) => [
    `  ${marks[state]} ${name.padEnd(width)}  ${detail}`,
    ...(advice === undefined ? [] : [`    ${' '.repeat(width)}  → ${advice}`]),
  ]);
  return `${title}\n${lines.join('\n')}\n`;
}
