// The command line of mpirun case by case, its output taken apart, and what is known about an installation.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { HorovodError } from '../../errors.ts';
import { planSlots } from '../hosts/plan-slots.ts';
import { findMpirun, readMpiVersion, requireMpirun } from './mpi-family.ts';
import { type MpirunRequest, mpirunCommand } from './mpirun-command.ts';
import { splitWords } from './split-words.ts';
import { TagReader } from './tag-reader.ts';

const request: MpirunRequest = {
  file: 'mpirun',
  family: 'open-mpi',
  slots: planSlots(2, [{ name: 'localhost', slots: 2 }]),
  command: { file: 'node', args: ['train.js'] },
  environment: {},
  hasRemoteHosts: false,
};
const twoHosts = {
  slots: planSlots(3, [
    { name: 'host1', slots: 2 },
    { name: 'host2', slots: 2 },
  ]),
  hasRemoteHosts: true,
};

describe('the command line of mpirun', () => {
  for (const [what, changes, expected] of [
    [
      'Open MPI: minimal',
      {},
      'mpirun --allow-run-as-root --tag-output -np 2 -H localhost:2 -bind-to none -map-by slot -mca pml ob1 ' +
        '-mca btl ^openib node train.js',
    ],
    [
      'Open MPI: everything',
      {
        ...twoHosts,
        sshPort: 1022,
        sshIdentityFile: '/keys/id',
        networkInterfaces: ['eth0', '10.0.0.0/8'],
        bindingArgs: '-bind-to socket',
        mpiArgs: '--mca a "b c"',
        environment: { PATH: '/bin', B: 'secret value', A: '1', 'BASH_FUNC_x%%': '()', OMPI_MCA_x: '1' },
      },
      'mpirun --allow-run-as-root --tag-output -np 3 -H host1:2,host2:1 -bind-to socket -mca pml ob1 -mca btl ' +
        '^openib -mca plm_rsh_args -o BatchMode=yes -p 1022 -i /keys/id -mca btl_tcp_if_include eth0,10.0.0.0/8 ' +
        '-mca oob_tcp_if_include eth0,10.0.0.0/8 -x A -x B -x PATH --mca a b c node train.js',
    ],
    [
      'Spectrum MPI',
      { family: 'spectrum-mpi' },
      'mpirun --allow-run-as-root --tag-output -np 2 -H localhost:2 -bind-to socket -map-by socket -rank-by core ' +
        '-tcp node train.js',
    ],
    [
      'MPICH: unequal slots are fine',
      { ...twoHosts, family: 'mpich', networkInterfaces: ['eth1'], environment: { B: '2', A: '1' } },
      'mpirun -prepend-pattern [%g,%r]<hvd>: -np 3 -hosts host1:2,host2:1 -iface eth1 -genvlist A,B node train.js',
    ],
  ] as const) {
    test(what, () => {
      const { file, args } = mpirunCommand({ ...request, ...changes });
      assert.equal([file, ...args].join(' '), expected);
    });
  }

  test('no value of a variable shows in it', () => {
    for (const family of ['open-mpi', 'mpich', 'intel-mpi', 'spectrum-mpi'] as const) {
      const { args } = mpirunCommand({ ...request, family, environment: { TOKEN: 'do-not-show' } });
      assert.ok(args.some((word) => word.includes('TOKEN')));
      assert.ok(!args.some((word) => word.includes('do-not-show')), family);
    }
  });

  test('from 64 hosts on their daemons are started all at once', () => {
    const hosts = Array.from({ length: 64 }, (_, index) => ({ name: `n${index}`, slots: 1 }));
    const words = (count: number) =>
      mpirunCommand({ ...request, slots: planSlots(count, hosts), hasRemoteHosts: true }).args.join(' ');
    assert.match(
      words(64),
      / -mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64 -mca plm_rsh_args /,
    );
    assert.doesNotMatch(words(63), /plm_rsh_no_tree_spawn/);
  });

  test('hydra gets the options of ssh in a variable', () => {
    const options = { ...request, ...twoHosts, sshPort: 2222 };
    assert.deepEqual(mpirunCommand({ ...options, family: 'mpich' }).environment, {
      HYDRA_LAUNCHER_EXTRA_ARGS: '-o BatchMode=yes -p 2222',
    });
    assert.deepEqual(mpirunCommand({ ...options, family: 'intel-mpi' }).environment, {
      I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS: '-o BatchMode=yes -p 2222',
    });
  });

  test('what an mpirun does not accept is rejected', () => {
    for (const [changes, expected] of [
      [{ family: 'mpich', networkInterfaces: ['a', 'b'] }, /a,b: mpirun of MPICH only accepts/],
      [{ family: 'mpich', networkInterfaces: ['10.0.0.0/8'] }, /only accepts the name of a single interface/],
      [{ ...twoHosts, sshIdentityFile: '/my keys/id' }, /must not contain spaces/],
      [{ mpiArgs: "--mca 'a" }, /--mpi-args ".*" has an unclosed '/],
    ] as const) {
      assert.throws(
        () => mpirunCommand({ ...request, ...changes }),
        (error) => HorovodError.is(error) && expected.test(error.message),
      );
    }
  });
});

test('words are split as a shell does', () => {
  for (const [text, expected] of [
    ['', []],
    [' a  b\tc\n', ['a', 'b', 'c']],
    [`a "b c" 'd "e' f\\ g`, ['a', 'b c', 'd "e', 'f g']],
    [`--x="y z"w ''`, ['--x=y zw', '']],
    [`"a\\"b" "c\\d" '\\'`, ['a"b', 'c\\d', '\\']],
  ] as const) {
    assert.deepEqual(splitWords(text, '--mpi-args'), expected);
  }
  assert.throws(() => splitWords('a\\', '--mpi-args'), /ends with a backslash/);
});

test('`mpirun --version` shows the family', () => {
  for (const [text, family, version] of [
    ['mpirun (Open MPI) 4.1.4\n\nReport bugs to …', 'open-mpi', '4.1.4'],
    ['OpenRTE 2.1.1', 'open-mpi', undefined],
    ['mpirun (Open MPI) 2.1\nIBM Spectrum MPI 10.3', 'spectrum-mpi', '2.1'],
    ['HYDRA build details:\n    Version:                                 4.0.2', 'mpich', '4.0.2'],
    ['MPICH Version: 3.3', 'mpich', '3.3'],
    ['Intel(R) MPI Library for Linux* OS, Version 2019 Update 4', 'intel-mpi', undefined],
  ] as const) {
    assert.deepEqual(readMpiVersion(text), { family, version }, text);
  }
  assert.equal(readMpiVersion('mpirun of the moon'), undefined);
});

test('an mpirun that is missing, fails or is unknown is explained', async () => {
  const env = { PATH: '/usr/bin:/bin' };
  assert.match(String(await findMpirun('no-such-mpirun', env)), /no-such-mpirun was not found on the PATH/);
  assert.match(String(await findMpirun('false', env)), /`false --version` failed/);
  assert.match(String(await findMpirun('node', { PATH: process.env['PATH'] })), /which is not a known MPI/);
  await assert.rejects(requireMpirun('no-such-mpirun', env, 1000), (error) => {
    return HorovodError.is(error) && /Install Open MPI or MPICH/.test(error.message);
  });
});

test('output is assigned to its rank, also without a newline', () => {
  const reader = new TagReader();
  const text =
    '[1,0]<stdout>:ab[1,1]<stdout>:cd[1,0]<stdout>:e\n-----\nmpirun says [1] no\n[1,10]<stderr>:f [x]\n';
  assert.deepEqual(
    [...reader.push(text), ...reader.flush()],
    [
      { rank: 0, text: 'ab' },
      { rank: 1, text: 'cd' },
      { rank: 0, text: 'e\n' },
      { rank: undefined, text: '-----\n' },
      { rank: undefined, text: 'mpirun says [1] no\n' },
      { rank: 10, text: 'f [x]\n' },
    ],
  );
});

test('however the output is cut, each rank gets the same', () => {
  const word = fc.constantFrom(
    'a',
    '[',
    ']',
    '[1,',
    '1',
    '[0,2]<stdout>:',
    '[1,3]<hvd>:',
    '\n',
    ':',
    '<',
    'ß',
  );
  const whole = fc.array(word, { maxLength: 30 }).map((words) => words.join(''));
  const collect = (pieces: readonly string[]) => {
    const reader = new TagReader();
    const found = new Map<number | undefined, string>();
    for (const { rank, text } of [...pieces.flatMap((piece) => reader.push(piece)), ...reader.flush()]) {
      found.set(rank, (found.get(rank) ?? '') + text);
    }
    return found;
  };
  fc.assert(
    fc.property(whole, fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 60 }), (text, cuts) => {
      const pieces: string[] = [];
      let at = 0;
      for (const cut of cuts) {
        pieces.push(text.slice(at, at + cut));
        at += cut;
      }
      pieces.push(text.slice(at));
      assert.deepEqual(collect(pieces), collect([text]));
    }),
    { numRuns: 500 },
  );
});
