import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { dumpedError } from './dumped-error.ts';
import {
  askForDumps,
  dumpsIn,
  type FlightDirectory,
  flightDirectory,
  openFlightDirectory,
} from './flight-directory.ts';
import { type FlightDump, isDumpName, writeDump } from './flight-dump.ts';
import { FlightDumper } from './flight-dumper.ts';

let temporary = '';
beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), 'horovod-dumper-'));
});
afterEach(() => rmSync(temporary, { recursive: true, force: true }));

function dumperIn(directory: FlightDirectory | undefined, isAnnounced = false) {
  const lines: string[] = [];
  const log = { write: (level: string, text: string) => void lines.push(`${level}: ${text}`), tell() {} };
  const dumper = new FlightDumper({
    place: directory === undefined ? undefined : { directory, isAnnounced },
    log,
    snapshot: (reason, error) =>
      ({
        rank: 3,
        pid: 812,
        reason,
        error: dumpedError(error),
        records: [{ sequence: 1 }],
      }) as unknown as FlightDump,
  });
  const read = () =>
    JSON.parse(readFileSync(join(directory?.path ?? '', 'rank-3.json'), 'utf8')) as FlightDump;
  return { dumper, lines, read };
}

function jobDirectory(job = 'abc', generation?: number): FlightDirectory {
  return flightDirectory(undefined, job, { temporary, generation }) as FlightDirectory;
}

describe('the directory of flight records', () => {
  test('is one of the job below the temporary directory, for this user alone', () => {
    const directory = jobDirectory();
    openFlightDirectory(directory);
    assert.match(directory.path, /horovod-flight-\w+\/abc$/);
    assert.equal(statSync(directory.path).mode & 0o777, 0o700);
    assert.equal(statSync(directory.parent ?? '').mode & 0o777, 0o700);
  });

  test('is the one the user names, or none', () => {
    assert.deepEqual(flightDirectory('/some/where', 'abc'), {
      job: 'abc',
      path: '/some/where',
      parent: undefined,
    });
    assert.equal(flightDirectory('none', 'abc'), undefined);
  });

  test('of the user is made with those above it, or said to be impossible', () => {
    const opened = (path: string) =>
      openFlightDirectory(flightDirectory(join(temporary, path), 'abc') as FlightDirectory);
    opened('a/b/c');
    opened('a/b/c');
    assert.ok(statSync(join(temporary, 'a/b/c')).isDirectory());
    writeFileSync(join(temporary, 'file'), '');
    assert.throws(() => opened('file'), { code: 'EEXIST' });
    assert.throws(() => opened('file/below'), { code: 'ENOTDIR' });
    const nowhere = flightDirectory('/proc/nowhere/at/all', 'abc') as FlightDirectory;
    if (existsSync('/proc/self')) assert.throws(() => openFlightDirectory(nowhere), { code: 'ENOENT' });
  });

  test('is not taken from somebody who has left it open to others', () => {
    const directory = jobDirectory();
    mkdirSync(directory.parent ?? '');
    chmodSync(directory.parent ?? '', 0o777);
    assert.throws(() => openFlightDirectory(directory), /not a directory of this user alone/);
  });

  test('of several users: links that wait for us are not followed', () => {
    const victim = join(temporary, 'victim');
    writeFileSync(victim, 'precious');
    utimesSync(victim, 1, 1);
    for (const link of [symlinkSync, linkSync]) {
      const directory = flightDirectory(join(temporary, link.name), 'abc') as FlightDirectory;
      openFlightDirectory(directory);
      for (const name of ['asked-abc', 'rank-3.json', 'rank-3.json.812.tmp']) {
        link(victim, join(directory.path, name));
      }
      const { dumper, lines, read } = dumperIn(directory);
      dumper.write('failure', new Error('first'));
      assert.equal(read().reason, 'failure');
      assert.match(lines.join('\n'), /warning: .*asked-abc is a link or no plain file/);
      assert.throws(() => askForDumps(directory), /is a link or no plain file/);
    }
    assert.equal(readFileSync(victim, 'utf8'), 'precious');
    assert.equal(statSync(victim).mtimeMs, 1000);
  });

  test('has room for twenty jobs: the oldest go', () => {
    for (let job = 0; job < 21; job++) {
      const directory = jobDirectory(`job${job}`);
      openFlightDirectory(directory);
      utimesSync(directory.path, job, job);
    }
    openFlightDirectory(jobDirectory('new'));
    const left = readdirSync(jobDirectory().parent ?? '');
    assert.equal(left.length, 20);
    assert.ok(
      left.includes('new') && left.includes('job20') && !left.includes('job0') && !left.includes('job1'),
    );
  });
});

describe('a dump', () => {
  test('is a whole file with reason, error and records, and nothing besides', () => {
    const { dumper, lines, read } = dumperIn(jobDirectory());
    dumper.write('failure', new HorovodError('ERR_HVD_TIMEOUT', 'too long', { rank: 2 }));
    const { reason, error, records } = read();
    assert.deepEqual(
      [reason, error?.code, error?.rank, records.length],
      ['failure', 'ERR_HVD_TIMEOUT', 2, 1],
    );
    assert.deepEqual(readdirSync(jobDirectory().path).sort(), ['asked-abc', 'rank-3.json']);
    assert.deepEqual(dumpsIn(jobDirectory(), Date.now() - 60_000), ['rank-3.json']);
    assert.match(lines.join('\n'), /^error: .*horovod flight-report .*abc/);
  });

  test('is begun under a name that nobody can guess, and leaves nothing there if it cannot be finished', () => {
    // A folder is in the way: the error says what was to be renamed.
    mkdirSync(join(temporary, 'rank-3.json', 'full'), { recursive: true });
    const dump = { rank: 3, records: [] } as unknown as FlightDump;
    const names = [1, 2].map(() => {
      try {
        writeDump(temporary, dump);
      } catch (error) {
        return String((error as NodeJS.ErrnoException).path);
      }
      return 'it was written';
    });
    for (const name of names) assert.match(name, /\/rank-3\.json\.[0-9a-f]{16}\.tmp$/);
    assert.notEqual(names[0], names[1]);
    assert.deepEqual(readdirSync(temporary), ['rank-3.json']);
  });

  test('after the failure is aftermath, and not written', () => {
    const { dumper, read } = dumperIn(jobDirectory());
    dumper.write('failure', new Error('first'));
    dumper.write('exit');
    assert.equal(read().reason, 'failure');
  });

  test('is announced at the level info where the launcher reports it', () => {
    const { dumper, lines } = dumperIn(jobDirectory(), true);
    dumper.write('failure');
    assert.match(lines.join('\n'), /^info: /);
  });

  test('that cannot be written is one warning', () => {
    writeFileSync(join(temporary, 'file'), '');
    const { dumper, lines } = dumperIn(flightDirectory(join(temporary, 'file', 'in it'), 'abc'));
    dumper.write('stall');
    dumper.write('signal');
    dumper.write('failure');
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] ?? '',
      /^warning: the flight record could not be written \(HOROVOD_FLIGHT_DIR\): ENOTDIR/,
    );
  });

  test('is written when another rank has asked, once', () => {
    const { dumper, read } = dumperIn(jobDirectory());
    dumper.look();
    assert.ok(!existsSync(jobDirectory().path));
    openFlightDirectory(jobDirectory());
    askForDumps(jobDirectory());
    dumper.look();
    assert.equal(read().reason, 'asked');
    rmSync(join(jobDirectory().path, 'rank-3.json'));
    dumper.look();
    assert.deepEqual(dumpsIn(jobDirectory(), 0), []);
  });

  test('is not asked for by an earlier job of the same name', () => {
    openFlightDirectory(jobDirectory());
    askForDumps(jobDirectory());
    utimesSync(join(jobDirectory().path, 'asked-abc'), 1, 1);
    const { dumper } = dumperIn(jobDirectory());
    dumper.look();
    assert.deepEqual(dumpsIn(jobDirectory(), 0), []);
  });

  test('of an elastic job has a file of its own in each generation, is asked for in one, and goes after twenty', () => {
    const write = (generation: number) => {
      const { dumper } = dumperIn(jobDirectory('abc', generation));
      dumper.write('stall');
      return dumper;
    };
    const first = write(1);
    askForDumps(jobDirectory('abc', 2));
    const second = dumperIn(jobDirectory('abc', 2)).dumper;
    rmSync(join(jobDirectory().path, 'rank-3.g1.json'));
    first.look();
    second.look();
    assert.deepEqual(readdirSync(jobDirectory().path).sort(), [
      'asked-abc.g1',
      'asked-abc.g2',
      'rank-3.g2.json',
    ]);
    const { generation } = JSON.parse(
      readFileSync(join(jobDirectory().path, 'rank-3.g2.json'), 'utf8'),
    ) as FlightDump;
    assert.equal(generation, 2);
    for (const each of [12, 22, 23]) write(each);
    assert.deepEqual(readdirSync(jobDirectory().path).filter(isDumpName).sort(), [
      'rank-3.g12.json',
      'rank-3.g22.json',
      'rank-3.g23.json',
    ]);
    assert.ok(!existsSync(join(jobDirectory().path, 'asked-abc.g2')));
  });

  test('is written at SIGUSR2, unless the user has a handler', async (t) => {
    // The test runner of Node 24 has one: --report-on-signal.
    const before = process.listeners('SIGUSR2');
    process.removeAllListeners('SIGUSR2');
    t.after(() => {
      for (const listener of before) process.on('SIGUSR2', listener);
    });
    const { dumper, read } = dumperIn(jobDirectory());
    dumper.listen();
    try {
      let theirs = 0;
      const own = () => {
        theirs++;
      };
      process.on('SIGUSR2', own);
      process.emit('SIGUSR2', 'SIGUSR2');
      process.off('SIGUSR2', own);
      assert.deepEqual([theirs, existsSync(jobDirectory().path)], [1, false]);
      process.emit('SIGUSR2', 'SIGUSR2');
      assert.equal(read().reason, 'signal');
    } finally {
      dumper.close();
    }
    assert.equal(process.listenerCount('SIGUSR2'), 0);
  });

  test('is nothing where nothing is to be written', () => {
    const { dumper, lines } = dumperIn(undefined);
    dumper.listen();
    dumper.look();
    dumper.write('failure');
    dumper.close();
    assert.deepEqual([lines, dumper.command], [[], undefined]);
  });
});
