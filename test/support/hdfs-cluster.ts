// A real namenode and two datanodes on this machine, in a temporary folder, with ports that the system chooses.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './scripted-server.ts';

export interface HdfsCluster extends AsyncDisposable {
  /** HADOOP_CONF_DIR for clients. */
  readonly confDir: string;
  /** Host and port of WebHDFS. */
  readonly webHdfs: string;
  readonly rpc: string;
  readonly datanodes: readonly ChildProcess[];
  /** Runs a command of `hdfs`, such as dfsadmin. */
  admin(className: string, ...args: readonly string[]): string;
}

const user = 'hvd';
export const hdfsBlockSize: number = 2 ** 20;
const startTimeoutMs = 120_000;

/** The jars, or why there are none. */
export function hadoopLib(): { readonly lib: string } | { readonly reason: string } {
  const lib = process.env['HVD_TEST_HADOOP_LIB'];
  if (lib !== undefined) return { lib };
  return { reason: 'no HVD_TEST_HADOOP_LIB (npm test -- --only integrations sets it)' };
}

export async function startHdfs(lib: string, datanodeCount = 2): Promise<HdfsCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-hdfs-'));
  const [rpcPort, httpPort] = [await freePort(), await freePort()];
  const [rpc, webHdfs] = [`127.0.0.1:${rpcPort}`, `127.0.0.1:${httpPort}`];
  const common = {
    'dfs.namenode.http-address': webHdfs,
    'dfs.namenode.name.dir': `file:${folder}/name`,
    'dfs.replication': '2',
    'dfs.blocksize': String(hdfsBlockSize),
    'dfs.namenode.fs-limits.min-block-size': String(hdfsBlockSize),
    'dfs.namenode.safemode.extension': '0',
    'dfs.namenode.delegation.token.always-use': 'true',
    'dfs.permissions.enabled': 'true',
    // A datanode that is gone is known to be dead after 2 × 1 + 10 × 1 s instead of 10 minutes.
    'dfs.namenode.heartbeat.recheck-interval': '1000',
    'dfs.heartbeat.interval': '1',
    'dfs.client.block.write.replace-datanode-on-failure.policy': 'NEVER',
  };
  const confOf = (name: string, properties: Readonly<Record<string, string>>) => {
    const conf = join(folder, name);
    for (const app of ['hdfs', 'datanode']) mkdirSync(join(conf, 'webapps', app), { recursive: true });
    writeFileSync(
      join(conf, 'core-site.xml'),
      xml({ 'fs.defaultFS': `hdfs://${rpc}`, 'hadoop.tmp.dir': `${folder}/tmp` }),
    );
    writeFileSync(join(conf, 'hdfs-site.xml'), xml({ ...common, ...properties }));
    writeFileSync(join(conf, 'log4j.properties'), log4j);
    return conf;
  };
  const confDir = confOf('conf', {});
  const env = { ...process.env, HADOOP_USER_NAME: user };
  const command = (conf: string, className: string, args: readonly string[]) => [
    ...[
      '-Xmx256m',
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      '--add-opens',
      'java.base/java.lang=ALL-UNNAMED',
    ],
    ...['-cp', `${conf}:${lib}/*`, className, ...args],
  ];
  const admin = (className: string, ...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync('java', command(confDir, className, args), {
      env,
      encoding: 'utf8',
    });
    if (status !== 0)
      throw new Error(`${className} ${args.join(' ')} ended with ${status}: ${stdout}${stderr}`);
    return stdout;
  };
  const processes: ChildProcess[] = [];
  const start = (name: string, conf: string, className: string) => {
    const child = spawn('java', command(conf, className, []), { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const log = createWriteStream(join(folder, `${name}.log`));
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    processes.push(child);
    return child;
  };
  const close = async () => {
    await Promise.all(processes.map(killed));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const namenodeClass = 'org.apache.hadoop.hdfs.server.namenode.NameNode';
    admin(namenodeClass, '-format', '-nonInteractive');
    start('namenode', confDir, namenodeClass);
    const datanodes = Array.from({ length: datanodeCount }, (_, i) =>
      start(
        `datanode-${i}`,
        confOf(`conf-${i}`, {
          'dfs.datanode.data.dir': `file:${folder}/data-${i}`,
          'dfs.datanode.address': '127.0.0.1:0',
          'dfs.datanode.http.address': '127.0.0.1:0',
          'dfs.datanode.ipc.address': '127.0.0.1:0',
          'dfs.datanode.hostname': '127.0.0.1',
        }),
        'org.apache.hadoop.hdfs.server.datanode.DataNode',
      ),
    );
    await ready(webHdfs, datanodeCount, processes, folder);
    return { confDir, webHdfs, rpc, datanodes, admin, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Ends a process, and waits for that. */
export async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

/** When all datanodes live, safe mode is over, and WebHDFS has answered once: its first answer takes seconds. */
async function ready(
  webHdfs: string,
  datanodes: number,
  processes: readonly ChildProcess[],
  folder: string,
): Promise<void> {
  const deadline = Date.now() + startTimeoutMs;
  const log = () => readFileSync(join(folder, 'namenode.log'), 'utf8').slice(-3000);
  while (Date.now() < deadline) {
    const ended = processes.find(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null);
    if (ended !== undefined)
      throw new Error(`HDFS ended with ${ended.exitCode ?? ended.signalCode}: ${log()}`);
    const state = await jsonOf(`http://${webHdfs}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState`);
    const [bean] = (state as { beans?: { NumLiveDataNodes: number; FSState: string }[] })?.beans ?? [];
    if (bean?.NumLiveDataNodes === datanodes && bean.FSState === 'Operational') {
      if ((await jsonOf(`http://${webHdfs}/webhdfs/v1/?op=GETFILESTATUS`)) !== undefined) return;
    }
    await sleep(100);
  }
  throw new Error(`HDFS was not ready after ${startTimeoutMs / 1000} s: ${log()}`);
}

async function jsonOf(url: string): Promise<unknown> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(30_000) });
    return response.ok ? await response.json() : undefined;
  } catch {
    return undefined;
  }
}

function xml(properties: Readonly<Record<string, string>>): string {
  const entries = Object.entries(properties).map(
    ([name, value]) => `<property><name>${name}</name><value>${value}</value></property>`,
  );
  return `<?xml version="1.0"?><configuration>${entries.join('')}</configuration>`;
}

const log4j = `log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n
`;
