import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { affected, dependencyGraph } from './affected.mjs';
import { repositoryGraph } from './changes.mjs';
import { planStage, stages } from './test-stages.mjs';

describe('what a change affects', () => {
  const sources = new Map(
    Object.entries({
      'src/errors.ts': '',
      'src/tensor/half.ts': "import { HorovodError } from '../errors.ts';",
      'src/tensor/half.test.ts': "import { narrow } from './half.ts';",
      'src/engine/types.ts': "import type { Half } from '../tensor/half.ts';",
      'src/index.ts': "export * from './engine/types.ts';",
      'src/launch/main.ts':
        "// import '../tensor/half.ts';\nconst agent = new URL('./agent.js', import.meta.url);",
      'src/launch/agent.ts': '',
      'src/transport/native/load.ts': '',
      'src/transport/shm.test.ts': "const { loadNative } = await import('./native/load.ts');",
      'test/fixtures/core/sum.mjs': "import * as hvd from 'horovod';",
      'test/fixtures/core/lost.mjs': '',
      'test/support/jobs.ts': "export const launcher = join(root, 'dist/launch/main.js');",
      'test/multiprocess/sum.test.ts': "fixture('sum.mjs'); import '../support/jobs.ts';",
      'test/cluster/hosts.test.ts': "run('cluster-in-a-box.sh');",
      'examples/core/train.ts': "import * as hvd from 'horovod';",
    }),
  );
  const graph = dependencyGraph(sources, [
    'test/cluster/cluster-in-a-box.sh',
    'test/fixtures/core/sum.cases.txt',
    'docs/guide/a.md',
  ]);
  const table = [
    ['a file that nothing imports', ['src/tensor/half.test.ts'], ['src/tensor/half.test.ts']],
    [
      'imports of values and types, to the end of the chain',
      ['src/tensor/half.ts'],
      [
        'examples/core/train.ts',
        'src/engine/types.ts',
        'src/index.ts',
        'src/tensor/half.test.ts',
        'src/tensor/half.ts',
        'test/fixtures/core/sum.mjs',
        'test/multiprocess/sum.test.ts',
      ],
    ],
    [
      'a compiled file that is started by its path',
      ['src/launch/agent.ts'],
      ['src/launch/agent.ts', 'src/launch/main.ts', 'test/multiprocess/sum.test.ts', 'test/support/jobs.ts'],
    ],
    [
      'C++ sources: what loads the addon',
      ['native/src/shm/arena.cc'],
      ['native/src/shm/arena.cc', 'src/transport/native/load.ts', 'src/transport/shm.test.ts'],
    ],
    ['C++ tests: nothing else', ['native/test/arena.test.cc'], ['native/test/arena.test.cc']],
    [
      'a fixture that no test names: all tests of whole jobs',
      ['test/fixtures/core/lost.mjs'],
      ['test/cluster/hosts.test.ts', 'test/fixtures/core/lost.mjs', 'test/multiprocess/sum.test.ts'],
    ],
    [
      'a file that belongs to a fixture by its name',
      ['test/fixtures/core/sum.cases.txt'],
      ['test/fixtures/core/sum.cases.txt', 'test/fixtures/core/sum.mjs', 'test/multiprocess/sum.test.ts'],
    ],
    [
      'a script that a test names',
      ['test/cluster/cluster-in-a-box.sh'],
      ['test/cluster/cluster-in-a-box.sh', 'test/cluster/hosts.test.ts'],
    ],
    ['a file that was deleted', ['src/tensor/gone.ts'], ['src/tensor/gone.ts']],
    ['a page', ['docs/guide/a.md'], ['docs/guide/a.md']],
    ['what only lint reads', ['biome.json', '.gitignore', '.ci/run'], []],
  ];
  for (const [title, changed, expected] of table) {
    test(title, () => assert.deepEqual([...affected(changed, graph).files].sort(), expected));
  }

  for (const path of [
    'package.json',
    'tsconfig.json',
    'test/tsconfig.json',
    'scripts/lib/tools.mjs',
    'new.cfg',
  ]) {
    test(`${path} affects everything`, () => {
      assert.match(affected(['README.md', path], graph).everything, new RegExp(path));
    });
  }
});

describe('stages after a change', () => {
  const stage = (name) => stages.find((each) => each.name === name);
  const table = [
    // change, stages that must run, stages that can be skipped
    [
      'docs/guide/index.md',
      ['lint', 'build', 'unit', 'reference'],
      ['native-thread', 'cluster', 'package', 'example'],
    ],
    ['native/test/x.test.cc', ['native-address', 'native-thread'], ['processes-portable', 'cluster', 'api']],
    ['examples/jax/mnist.ts', ['types', 'example'], ['cluster', 'native-thread', 'api', 'tfjs-node']],
    ['native/src/shm/arena.cc', ['native-thread', 'unit', 'processes', 'cluster', 'package'], ['reference']],
    ['src/index.ts', ['processes', 'cluster', 'types', 'api', 'package', 'example'], ['native-thread']],
    ['src/launch/agent/main.ts', ['processes', 'cluster', 'package'], ['native-address']],
  ];
  const graph = repositoryGraph();
  for (const [path, running, skipped] of table) {
    test(`${path} concerns ${running.join(', ')} and not ${skipped.join(', ')}`, () => {
      const change = affected([path], graph);
      for (const name of running) assert.equal(planStage(stage(name), change).reason, undefined, name);
      for (const name of skipped)
        assert.match(planStage(stage(name), change).reason ?? '', /affects n/, name);
    });
  }

  test('the tests in test/house always run, other tests if they are affected', () => {
    const { tests } = planStage(stage('unit'), affected(['src/tensor/byte-list.test.ts'], graph));
    const isExpected = (path) => path === 'src/tensor/byte-list.test.ts' || path.startsWith('test/house/');
    assert.ok(tests.includes('src/tensor/byte-list.test.ts'));
    assert.deepEqual(
      tests.filter((path) => !isExpected(path)),
      [],
    );
  });

  test('without a change, or after one that affects everything, nothing is left out', () => {
    for (const change of [undefined, { everything: 'package.json' }]) {
      assert.deepEqual(planStage(stage('cluster'), change), { tests: stage('cluster').tests() });
      assert.equal(planStage(stage('example'), change).reason, undefined);
    }
  });
});
