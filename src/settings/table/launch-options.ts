// Options of horovodrun itself: flags without a variable.

import { anyText, boolean, hostNameList, integer, nameList, portNumber, portOrAny } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

export interface LaunchOptions {
  readonly processes: number | undefined;
  readonly configFile: string | undefined;
  readonly keepGoing: boolean;
  readonly hosts: string | undefined;
  readonly hostfile: string | undefined;
  readonly sshPort: number | undefined;
  readonly sshIdentityFile: string | undefined;
  readonly envAllow: readonly string[] | undefined;
  readonly envDeny: readonly string[] | undefined;
  readonly mpiArgs: string | undefined;
  readonly bindingArgs: string | undefined;
  readonly outputFilename: string | undefined;
  /** Undefined: TensorBoard is not started. */
  readonly tensorboardPort: number | undefined;
  readonly tensorboardKeep: boolean;
  /** Undefined: there is no dashboard. */
  readonly dashboardPort: number | undefined;
  readonly dashboardBind: string | undefined;
  readonly dashboardHosts: readonly string[] | undefined;
  readonly dashboardControl: boolean;
  readonly dashboardKeep: boolean;
  readonly dashboardSave: string | undefined;
  readonly dashboardOpen: boolean;
  readonly prefixOutput: boolean;
  readonly prefixTimestamp: boolean;
  readonly verbose: boolean;
  readonly checkBuild: boolean;
  readonly version: boolean;
  readonly help: boolean;
}

export const launchTable: SettingsOf<LaunchOptions> = {
  ...inGroup('Launching', {
    processes: {
      flags: [{ names: ['-np', '--num-proc'], operand: 'N' }],
      kind: integer(1),
      defaultText: 'required',
      text: 'Number of processes to start.',
    },
    configFile: {
      flags: [{ names: ['--config-file'], operand: 'FILE' }],
      kind: anyText,
      text: 'YAML file with settings. Flags take precedence over it.',
    },
    keepGoing: {
      flags: [{ names: ['--keep-going'], text: '1' }],
      kind: boolean,
      default: false,
      text:
        'Leave the other ranks running when one fails. Its failure is reported at once, and decides the exit code at the end. ' +
        'For ranks that work independently of each other.',
    },
  }),
  ...inGroup('Hosts', {
    hosts: {
      flags: [{ names: ['-H', '--hosts'], operand: 'HOST:SLOTS,…' }],
      kind: anyText,
      defaultText: 'this host only',
      text: 'Hosts to start the processes on, filled in this order. Write IPv6 addresses in brackets.',
    },
    hostfile: {
      flags: [{ names: ['--hostfile', '-hostfile'], operand: 'FILE' }],
      kind: anyText,
      text: 'File that lists the hosts, one `HOST slots=N` per line, instead of -H.',
    },
    sshPort: {
      flags: [{ names: ['-p', '--ssh-port'], operand: 'PORT' }],
      kind: portNumber,
      defaultText: 'as configured for ssh',
      text: 'Port of the ssh servers on the other hosts.',
    },
    sshIdentityFile: {
      flags: [{ names: ['-i', '--ssh-identity-file'], operand: 'FILE' }],
      kind: anyText,
      defaultText: 'as configured for ssh',
      text: 'Private key file for ssh.',
    },
    envAllow: {
      flags: [{ names: ['--env-allow'], operand: 'NAME,…', joinedWith: ',' }],
      kind: nameList,
      defaultText: 'all except those of the shell and of other jobs',
      text:
        'Pass only these environment variables to the ranks; A_* means all that start with A_. HOROVOD_* and PATH are ' +
        'always passed. Variables named here also go to other hosts if they would be filtered out otherwise.',
    },
    envDeny: {
      flags: [{ names: ['--env-deny'], operand: 'NAME,…', joinedWith: ',' }],
      kind: nameList,
      text: 'Do not pass these environment variables to the ranks, even if --env-allow names them.',
    },
  }),
  ...inGroup('mpirun', {
    mpiArgs: {
      flags: [{ names: ['--mpi-args'], operand: '"ARGUMENTS"' }],
      kind: anyText,
      text: 'Additional arguments for mpirun (with --mpi), split into words as in a shell.',
    },
    bindingArgs: {
      flags: [{ names: ['--binding-args'], operand: '"ARGUMENTS"' }],
      kind: anyText,
      defaultText: '-bind-to none -map-by slot (Open MPI)',
      text: 'Arguments that tell mpirun where to place and bind the ranks (with --mpi).',
    },
  }),
  ...inGroup('Output', {
    outputFilename: {
      flags: [{ names: ['--output-filename'], operand: 'DIRECTORY' }],
      kind: anyText,
      text: 'Also write the output of each rank to DIRECTORY/rank.<rank>/stdout and stderr; of an elastic job, to worker.<number>/. DIRECTORY may be a URL, such as hdfs://…, to which the files are copied when the job has ended.',
    },
    tensorboardPort: {
      flags: [{ names: ['--tensorboard'], operand: 'PORT', bare: '0' }],
      kind: portOrAny,
      text: 'Start TensorBoard for --tensorboard-logdir on this host, at 127.0.0.1, and print its URL. It ends with the job. Without PORT, a free port is taken.',
    },
    tensorboardKeep: {
      flags: [{ names: ['--tensorboard-keep'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Let TensorBoard go on when the job has ended, until Ctrl-C.',
    },
    dashboardPort: {
      flags: [{ names: ['--dashboard'], operand: 'PORT', bare: '0' }],
      kind: portOrAny,
      text: 'Show the job on a web page, at 127.0.0.1 of this host, and print its URL. It ends with the job. Without PORT, a free port is taken.',
    },
    dashboardBind: {
      flags: [{ names: ['--dashboard-bind'], operand: 'ADDRESS' }],
      kind: anyText,
      defaultText: '127.0.0.1',
      text: 'Serve the dashboard at this address of this host, so that other machines reach it. Its traffic is not encrypted.',
    },
    dashboardHosts: {
      flags: [{ names: ['--dashboard-host'], operand: 'NAME,…', joinedWith: ',' }],
      kind: hostNameList,
      text: 'More names by which browsers reach the dashboard, NAME or NAME:PORT, such as those of a proxy. Requests for other names are rejected.',
    },
    dashboardControl: {
      flags: [{ names: ['--dashboard-control'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Let the page of the dashboard stop the job and record timelines.',
    },
    dashboardKeep: {
      flags: [{ names: ['--dashboard-keep'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Keep the dashboard running when the job has ended, until Ctrl-C.',
    },
    dashboardSave: {
      flags: [{ names: ['--dashboard-save'], operand: 'FILE' }],
      kind: anyText,
      text: 'At the end of the job, write the page of the dashboard, with all it shows, to one HTML file.',
    },
    dashboardOpen: {
      flags: [{ names: ['--open'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Open the dashboard in a browser, where there is a display.',
    },
    prefixOutput: {
      flags: [{ names: ['--no-prefix-output'], text: '0' }],
      kind: boolean,
      default: true,
      text: 'Print the output of the ranks without `[rank]<stdout>:` before each line.',
    },
    prefixTimestamp: {
      flags: [{ names: ['-prefix-timestamp', '--prefix-output-with-timestamp'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Print the time before the prefix of each line.',
    },
    verbose: {
      flags: [{ names: ['--verbose'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Print what horovodrun is doing.',
    },
  }),
  ...inGroup('Information', {
    checkBuild: {
      flags: [{ names: ['-cb', '--check-build'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Print which frameworks, controllers and transports this installation supports, and exit.',
    },
    version: {
      flags: [{ names: ['-v', '--version'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Print the version and exit.',
    },
    help: {
      flags: [{ names: ['-h', '--help'], text: '1' }],
      kind: boolean,
      default: false,
      text: 'Print this help and exit.',
    },
  }),
};
