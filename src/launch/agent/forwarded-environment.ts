// Which variables of the launcher's environment go to ranks on other hosts: those that also go to ranks here, except for
// those that belong to one machine, login or process, such as a directory, a terminal, an agent's socket or a place in
// another job. Pure functions.

import { type ForwardingRules, forwardedEnvironment, matcher } from '../../settings/environment.ts';

/** Not forwarded unless the user allows them. */
export const deniedNames: readonly string[] = [
  // The shell's own
  ...['_', 'SHLVL', 'PWD', 'OLDPWD', 'BASH_FUNC_*', 'BASH_ENV', 'ENV', 'PS1', 'PROMPT_COMMAND'],
  // The login's: the other host has set its own
  ...['HOME', 'USER', 'LOGNAME', 'SHELL', 'MAIL', 'HOSTNAME', 'HOST', 'XDG_*', 'DBUS_*', 'GPG_*', 'SSH_*'],
  // The terminal's and the desktop's
  ...['TERM', 'TERM_*', 'COLORTERM', 'COLUMNS', 'LINES', 'TTY', 'TMUX*', 'STY', 'WINDOWID', 'VTE_VERSION'],
  ...['DISPLAY', 'WAYLAND_DISPLAY', 'XAUTHORITY', 'VSCODE_*'],
  // The process's place in another job, and its descriptors
  ...['SLURM_*', 'SLURMD_*', 'SRUN_*', 'SBATCH_*', 'PMI_*', 'PMIX_*', 'PMI2_*', 'OMPI_COMM_WORLD_*'],
  ...['OMPI_UNIVERSE_SIZE', 'OMPI_MCA_orte_*', 'OMPI_MCA_ess_*', 'OMPI_MCA_plm_rsh_agent', 'PRTE_*'],
  ...['MPI_LOCALRANKID', 'MPI_LOCALNRANKS', 'HYDI_*', 'HYDRA_*', 'LSB_*', 'KUBERNETES_*'],
  ...['NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE', 'NODE_UNIQUE_ID', 'NODE_V8_COVERAGE'],
  ...['NODE_TEST_CONTEXT', 'INVOCATION_ID', 'JOURNAL_STREAM', 'NOTIFY_SOCKET', 'LISTEN_FDS', 'LISTEN_PID'],
  // GPUs are numbered by each host
  ...['*CUDA_VISIBLE_DEVICES', 'HIP_VISIBLE_DEVICES', 'ROCR_VISIBLE_DEVICES'],
];

/** Variables that --env-allow names are always included. */
export function environmentForOtherHosts(
  driver: NodeJS.ProcessEnv,
  rules: ForwardingRules = {},
): Record<string, string> {
  const isAllowed = matcher(rules.allow ?? []);
  const isDenied = matcher(deniedNames);
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(forwardedEnvironment(driver, rules))) {
    if (value !== undefined && (isAllowed(name) || !isDenied(name))) environment[name] = value;
  }
  return environment;
}

/** Variables that name a file or directory, which are dropped if it does not exist. */
const pathNames: ReadonlySet<string> = new Set([
  'TMPDIR',
  'TMP',
  'TEMP',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
]);

/**
 * The environment on the other host: its own, overridden by the forwarded variables. PATH is the forwarded one followed by
 * the folders that only this host has.
 */
export function receivedEnvironment(
  own: NodeJS.ProcessEnv,
  forwarded: Readonly<Record<string, string>>,
  exists: (path: string) => boolean,
): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(own)) if (!/^SSH_/.test(name)) env[name] = value;
  for (const [name, value] of Object.entries(forwarded)) {
    if (!pathNames.has(name) || exists(value)) env[name] = value;
  }
  const folders = [forwarded['PATH'], own['PATH']].flatMap((path) => path?.split(':') ?? []);
  if (folders.length > 0) env['PATH'] = [...new Set(folders.filter((folder) => folder !== ''))].join(':');
  return env;
}
