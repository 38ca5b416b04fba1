// Files that are not on this machine: HDFS, and how long to wait for a server.

import { anyText, seconds } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

/** Plain data: threads and other processes get it as it is. */
export interface FileSettings {
  /** Undefined: from the configuration of Hadoop, else port 9870 of the host in the URL. */
  readonly webHdfs: string | undefined;
  readonly hadoopConfDir: string | undefined;
  readonly hadoopUser: string | undefined;
  readonly hdfsToken: string | undefined;
  readonly hadoopTokenFile: string | undefined;
  readonly fileTimeoutMs: number;
}

export const fileSettings: SettingsOf<FileSettings> = inGroup('Files', {
  webHdfs: {
    env: 'HOROVOD_WEBHDFS',
    kind: anyText,
    defaultText: 'from HADOOP_CONF_DIR, else port 9870 of the host in the URL',
    text: 'Address of WebHDFS for hdfs:// URLs: host:port or http(s)://host:port; several namenodes are separated by commas.',
  },
  hadoopConfDir: {
    env: 'HADOOP_CONF_DIR',
    kind: anyText,
    text: 'Directory with core-site.xml and hdfs-site.xml, which name the namenodes of hdfs:// URLs.',
  },
  hadoopUser: {
    env: 'HADOOP_USER_NAME',
    kind: anyText,
    defaultText: 'the user of the process',
    text: 'User name for HDFS without Kerberos.',
  },
  hdfsToken: {
    env: 'HOROVOD_HDFS_TOKEN',
    kind: anyText,
    isSecret: true,
    text: 'Delegation token for HDFS with Kerberos, as op=GETDELEGATIONTOKEN returns it. Never printed.',
  },
  hadoopTokenFile: {
    env: 'HADOOP_TOKEN_FILE_LOCATION',
    kind: anyText,
    text: 'File with delegation tokens, which YARN and Spark write; used if HOROVOD_HDFS_TOKEN is not set.',
  },
  fileTimeoutMs: {
    env: 'HOROVOD_FILE_TIMEOUT',
    kind: seconds({ zero: false }),
    default: 60_000,
    text: 'Seconds without any progress after which an operation on a file on a server fails. Lost connections are retried until then.',
  },
});
