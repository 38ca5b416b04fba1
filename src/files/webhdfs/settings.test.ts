import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { projectName, projectPath } from './project.ts';
import { namenodesOf, parseHadoopXml } from './settings.ts';
import { chooseToken, parseTokenFile, tokenText } from './tokens.ts';
import { parseHdfsLocation } from './url.ts';

const configuration = parseHadoopXml(`<?xml version="1.0"?>
<configuration>
  <!-- <property><name>fs.defaultFS</name><value>hdfs://commented:1</value></property> -->
  <property><name>fs.defaultFS</name><value>hdfs://ns</value></property>
  <property>
    <name>dfs.nameservices</name>
    <value> ns </value>
    <description>a &lt;name&gt;</description>
  </property>
  <property><name>dfs.ha.namenodes.ns</name><value>nn1, nn2</value></property>
  <property><name>dfs.namenode.http-address.ns.nn1</name><value>\${first}:50070</value></property>
  <property><name>dfs.namenode.rpc-address.ns.nn2</name><value>two:8020</value></property>
  <property><name>first</name><value>one&#46;example</value></property>
</configuration>`);

describe('where WebHDFS listens', () => {
  const single = (address: string) =>
    new Map([
      ['fs.defaultFS', 'hdfs://nn:8020'],
      ['dfs.namenode.http-address', address],
    ]);
  const table: readonly (readonly [
    string,
    string | undefined,
    ReadonlyMap<string, string>,
    readonly string[],
  ])[] = [
    ['hdfs://nn:8020/a', undefined, new Map(), ['http://nn:9870']],
    ['hdfs://nn/a', undefined, new Map(), ['http://nn:9870']],
    ['webhdfs://nn:50070/a', 'other:1', new Map(), ['http://nn:50070']],
    ['swebhdfs://nn/a', undefined, new Map(), ['https://nn:9871']],
    ['hdfs://nn:8020/a', 'web:1,https://web2:2', configuration, ['http://web:1', 'https://web2:2']],
    ['hdfs:///a', undefined, configuration, ['http://one.example:50070', 'http://two:9870']],
    ['hdfs://ns/a', undefined, configuration, ['http://one.example:50070', 'http://two:9870']],
    ['webhdfs://ns/a', undefined, configuration, ['http://one.example:50070', 'http://two:9870']],
    ['hdfs://elsewhere:8020/a', undefined, configuration, ['http://elsewhere:9870']],
    ['hdfs:///a', undefined, single('0.0.0.0:50070'), ['http://nn:50070']],
    ['hdfs://nn:8020/a', undefined, single('web:50070'), ['http://web:50070']],
    ['hdfs://other:8020/a', undefined, single('web:50070'), ['http://other:9870']],
    ['hdfs://[fd00::1]:8020/a', undefined, new Map(), ['http://[fd00::1]:9870']],
  ];
  for (const [location, webHdfs, files, expected] of table) {
    test(`${location}, ${webHdfs ?? 'no setting'}: ${expected.join(' ')}`, () => {
      const found = namenodesOf(parseHdfsLocation(location), { webHdfs }, files);
      assert.deepEqual(
        found.map(({ origin }) => origin),
        expected,
      );
    });
  }

  test('without a default file system, and with a wrong address, there is a text', () => {
    const place = parseHdfsLocation('hdfs:///a');
    assert.throws(() => namenodesOf(place, { webHdfs: undefined }, new Map()), {
      message: /HADOOP_CONF_DIR.*HOROVOD_WEBHDFS=/,
    });
    assert.throws(() => namenodesOf(place, { webHdfs: 'a b' }, new Map()), {
      code: 'ERR_HVD_SETTING',
      message: /HOROVOD_WEBHDFS is "a b"; expected host:port/,
    });
  });
});

describe('token files', () => {
  // The two formats of Hadoop's Credentials, with one token, whose identifier needs a longer size.
  const identifier = Buffer.alloc(200, 1);
  const fields = [
    identifier,
    Buffer.from('pass'),
    Buffer.from('HDFS_DELEGATION_TOKEN'),
    Buffer.from('ha-hdfs:ns'),
  ];
  const short = (bytes: Buffer) =>
    Buffer.concat([
      bytes.length < 128 ? Buffer.from([bytes.length]) : Buffer.from([0x8f, bytes.length]),
      bytes,
    ]);
  const writable = Buffer.concat(fields.map(short));

  test('tokens as Writables are found, and encoded as WebHDFS wants them', () => {
    const file = Buffer.concat([
      Buffer.from('HDTS\0\x01'),
      short(Buffer.from('alias')),
      writable,
      Buffer.from([0]),
    ]);
    const [token, ...others] = parseTokenFile(file);
    assert.deepEqual(others, []);
    assert.deepEqual([token?.kind, token?.service], ['HDFS_DELEGATION_TOKEN', 'ha-hdfs:ns']);
    assert.deepEqual(token?.identifier, identifier);
    assert.equal(tokenText(token as never), writable.toString('base64url'));
  });

  test('tokens of a protocol buffer are the same', () => {
    const field = (number: number, bytes: Buffer) => {
      const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7];
      return Buffer.concat([Buffer.from([number * 8 + 2, ...length]), bytes]);
    };
    const token = Buffer.concat(fields.map((bytes, i) => field(i + 1, bytes)));
    const message = field(1, Buffer.concat([field(1, Buffer.from('alias')), field(2, token)]));
    const length = Buffer.from([(message.length & 127) | 128, message.length >> 7]);
    const [found] = parseTokenFile(Buffer.concat([Buffer.from('HDTS\x01'), length, message]));
    assert.equal(tokenText(found as never), writable.toString('base64url'));
  });

  test('the token of the nameservice is taken, and never one for something else', () => {
    const token = (kind: string, service: string) => ({ identifier, password: identifier, kind, service });
    const tokens = [
      token('YARN_AM_RM_TOKEN', ''),
      token('HDFS_DELEGATION_TOKEN', 'ha-hdfs:other'),
      token('HDFS_DELEGATION_TOKEN', 'ha-hdfs:ns'),
    ];
    assert.equal(chooseToken(tokens, 'ns'), tokens[2]);
    assert.equal(chooseToken(tokens, 'unknown'), tokens[1]);
    assert.equal(chooseToken(tokens.slice(0, 1), 'ns'), undefined);
  });

  test('other files are no token files, at any length', () => {
    const file = Buffer.concat([Buffer.from('HDTS\0\x01'), short(Buffer.from('alias')), writable]);
    for (let length = 0; length < file.length; length++)
      assert.throws(() => parseTokenFile(file.subarray(0, length)));
    assert.throws(() => parseTokenFile(Buffer.from('HDTS\x05abc')));
  });
});

describe('projects on Hopsworks', () => {
  test('come from the name of the user', () => {
    assert.equal(projectName('mnist__alice000'), 'mnist');
    assert.equal(projectPath('mnist'), 'hdfs:///Projects/mnist/');
  });

  test('are not to be had elsewhere', () => {
    assert.throws(() => projectName(undefined), {
      code: 'ERR_HVD_SETTING',
      message: /HADOOP_USER_NAME=project__user, and it is not set/,
    });
    assert.throws(() => projectName('alice'), { code: 'ERR_HVD_SETTING', message: /it is "alice"/ });
    assert.throws(() => projectPath('a/b'), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });
});
