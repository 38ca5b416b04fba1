// The jars of a namenode and a datanode, for the tests in test/integrations/hdfs. Maven fetches them by name (pom.xml there) into
// .cache/hadoop, once. HVD_TEST_HADOOP_LIB names a folder that has them already.

import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { installOnCi } from './system-packages.mjs';
import { capture, findCommand, inRepository } from './tools.mjs';

const version = '3.4.1';
const cache = inRepository('.cache/hadoop');

/** Resolves to { lib } with the folder of the jars, or { reason }. */
export async function ensureHadoop() {
  if (findCommand('java') === undefined) await installOnCi(['openjdk-17-jre-headless']);
  if (findCommand('java') === undefined)
    return { reason: 'no Java (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)' };
  const given = process.env['HVD_TEST_HADOOP_LIB'];
  if (given !== undefined) return { lib: given };
  const lib = join(cache, `lib-${version}`);
  if (existsSync(lib)) return { lib };
  if (findCommand('mvn') === undefined) await installOnCi(['maven']);
  if (findCommand('mvn') === undefined) return { reason: 'no Maven (Debian, Ubuntu: apt-get install maven)' };
  const unfinished = join(cache, `unfinished-${process.pid}`);
  mkdirSync(cache, { recursive: true });
  try {
    const pom = inRepository('test/integrations/hdfs/pom.xml');
    const copy = [
      'dependency:copy-dependencies',
      `-DoutputDirectory=${unfinished}`,
      '-DincludeScope=runtime',
    ];
    const { code, text } = await capture('mvn', ['-q', '-B', '-f', pom, ...copy], { timeoutMs: 600_000 });
    if (code !== 0 || readdirSync(unfinished).length < 50) {
      const line = text.split('\n').find((each) => each.includes('ERROR')) ?? `exit code ${code}`;
      return { reason: `Maven could not fetch Hadoop ${version}: ${line.slice(0, 200)}` };
    }
    if (!existsSync(lib)) renameSync(unfinished, lib);
    return { lib };
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}
