// Somebody else's project: packs this checkout, installs the tarball into an empty folder and uses it there, in
// TypeScript and JavaScript, with the addon and without. Nothing may need a compiler or run at install.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const checkout = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const folder = mkdtempSync(join(tmpdir(), 'hvd-package-'));
const project = join(folder, 'project');
const installed = join(project, 'node_modules/horovod');
const hasAddon = () => {
  const build = join(checkout, 'native/build');
  return existsSync(build) && readdirSync(build).some((name) => name.endsWith('.node'));
};

let tarball = '';
let packedPaths = [];
let installOutput = '';

/** Runs a command in the consumer's project; resolves to { code, stdout, stderr }. */
function runIn(cwd, command, args, env = {}) {
  const options = { cwd, env: { ...process.env, ...env }, timeout: 180_000, maxBuffer: 1 << 26 };
  return new Promise((resolve) => {
    execFile(command, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : (error.code ?? 1), stdout, stderr }),
    );
  });
}

async function succeed(cwd, command, args, env) {
  const result = await runIn(cwd, command, args, env);
  assert.equal(result.code, 0, `${command} ${args.join(' ')}\n${result.stdout}${result.stderr}`);
  return result;
}

before(async () => {
  mkdirSync(project);
  const packed = await succeed(checkout, 'npm', ['pack', '--json', '--pack-destination', folder]);
  const [report] = JSON.parse(packed.stdout);
  tarball = join(folder, report.filename);
  packedPaths = report.files.map((file) => file.path);

  const { devDependencies } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
  writeProject('package.json', JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  const tools = ['typescript', '@types/node'].map((name) => `${name}@${devDependencies[name]}`);
  // The newest that knows nothing of `exports` by default, and the one that tslab has.
  tools.push('old-typescript@npm:typescript@5.0.4');
  const { stdout, stderr } = await succeed(
    project,
    'npm',
    ['install', '--no-audit', '--no-fund', '--prefer-offline', tarball, ...tools],
    {
      // What a careful user has, and npm 12's default: our package must not need an install script.
      npm_config_ignore_scripts: 'true',
      // No compiler to be found, should anything look for one.
      CXX: '/nonexistent/compiler',
    },
  );
  installOutput = stdout + stderr;
});

after(() => rmSync(folder, { recursive: true, force: true }));

const writeProject = (name, text) => writeFileSync(join(project, name), text);

describe('the tarball', () => {
  test('contains the compiled package, the command, the guide and the licence', () => {
    for (const path of [
      'dist/index.js',
      'dist/index.d.ts',
      'bin/horovod.js',
      'bin/horovodrun.js',
      'dist/observe/dashboard/page/app.js',
      'dist/observe/dashboard/page/index.html',
      'dist/observe/dashboard/page/style.css',
      'dist/observe/dashboard/page/vendor/uplot/LICENSE',
      'dist/observe/dashboard/page/vendor/uplot/uPlot.iife.min.js',
      'dist/observe/timeline/report/page/main.js',
      'native/wasm/compiled/reduce-kernels.wasm',
      'native/wasm/compiled/training-kernels.wasm',
      'LICENSE',
      'README.md',
      'CHANGELOG.md',
    ]) {
      assert.ok(packedPaths.includes(path), `${path} is missing`);
    }
    assert.ok(packedPaths.some((path) => path.startsWith('docs/guide/')));
  });

  test('carries the addon built here', (t) => {
    if (!hasAddon()) return t.skip('this checkout has no addon: there was no C++ compiler');
    assert.ok(
      packedPaths.some((path) => /^native\/build\/[^/]+\.node$/.test(path)),
      packedPaths.join('\n'),
    );
  });

  test('contains no tests, no sources, no build leftovers', () => {
    const unwanted = packedPaths.filter((path) =>
      /\.test\.|(^|\/)test\/|^src\/|\.map$|\.o$|^bench\/|^\.ci|^dist\/house\//.test(path),
    );
    assert.deepEqual(unwanted, []);
  });

  test('contains what horovod build needs, and no other script', () => {
    const scripts = packedPaths.filter((path) => path.startsWith('scripts/'));
    assert.deepEqual(scripts.sort(), [
      'scripts/build-native.mjs',
      'scripts/lib/compute-flags.mjs',
      'scripts/lib/tools.mjs',
    ]);
    assert.ok(packedPaths.includes('native/src/node/addon.cc'));
    assert.ok(packedPaths.includes('native/src/reduce/kernels.inc'));
    assert.ok(packedPaths.includes('native/wasm/vector.h'));
  });

  test('has of horovod/testing only what users may import, and what that needs', () => {
    const files = packedPaths.filter((path) => /^dist\/testing\/.*\.js$/.test(path)).sort();
    assert.deepEqual(files, [
      'dist/testing/exchange.js',
      'dist/testing/faults.js',
      'dist/testing/index.js',
      'dist/testing/inject-faults.js',
      'dist/testing/run-contexts.js',
      'dist/testing/run-ranks.js',
      'dist/testing/spawn-ranks.js',
    ]);
    for (const path of packedPaths.filter((each) => /^dist\/.*\.(js|d\.ts)$/.test(each))) {
      const text = readFileSync(join(installed, path), 'utf8');
      assert.doesNotMatch(text, /\btest\/(fixtures|support|cluster|multiprocess)\b/, path);
    }
  });

  test('names no path of the machine it was built on', () => {
    const places = [checkout, homedir()].filter((place) => place.length > 1);
    for (const path of packedPaths) {
      const bytes = readFileSync(join(installed, path));
      for (const place of places) assert.ok(!bytes.includes(`${place}/`), `${path} mentions ${place}`);
    }
  });

  test('declares no script that npm would run at install', () => {
    const { scripts } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) {
      assert.equal(scripts?.[name], undefined, name);
    }
    assert.doesNotMatch(installOutput, /script/i);
    const own = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
    assert.equal(own.scripts.prepare, 'node scripts/prepare.mjs', 'that of the checkout is as it was');
    assert.ok(!existsSync(join(installed, 'binding.gyp')), 'npm runs node-gyp when it sees a binding.gyp');
  });

  test('passes publint --strict', async () => {
    await succeed(checkout, 'npx', ['--no', '--', 'publint', 'run', tarball, '--strict']);
  });

  test('passes attw for ES modules', async () => {
    const args = [
      '--no',
      '--',
      'attw',
      tarball,
      '--profile',
      'esm-only',
      '--no-definitely-typed',
      '--no-color',
    ];
    await succeed(checkout, 'npx', args);
  });
});

describe('a project that installed it', () => {
  test('compiles strictly against its types with module NodeNext', async () => {
    const compilerOptions = {
      target: 'ES2022',
      module: 'NodeNext',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      types: ['node'],
      noEmit: true,
    };
    writeProject('tsconfig.json', JSON.stringify({ compilerOptions, include: ['use.ts', 'use-testing.ts'] }));
    writeProject(
      'use.ts',
      `import * as hvd from 'horovod';
       await hvd.init();
       const sum: Float32Array = await hvd.allreduce(new Float32Array([hvd.rank()]), { op: hvd.Sum });
       const error: hvd.HorovodError = new hvd.HorovodError('ERR_HVD_TIMEOUT', 'text');
       console.log(sum, error.code, hvd.nativeBuilt());
       await hvd.shutdown();`,
    );
    writeProject(
      'use-testing.ts',
      `import * as hvd from 'horovod';
       import { type Fault, type RankFunctions, RanksFailed, runRanks, spawnRanks } from 'horovod/testing';
       // Code that takes its functions as a parameter runs in a script and in a test.
       const total = async (of: RankFunctions, x: number): Promise<number | undefined> =>
         (await of.allreduce(Float64Array.of(x), { op: of.Sum }))[0];
       const fromScript: number | undefined = await total(hvd, 1);
       const fromTest: (number | undefined)[] = await runRanks(2, (rank) => total(rank, rank.rank()));
       const faults: Fault[] = [{ rank: 1, step: 3, kind: 'kill' }];
       const { exitCode, ranks } = await spawnRanks(2, 'train.ts', { faults });
       // @ts-expect-error a blocking call would stop the other ranks
       await runRanks(2, (rank) => rank.allreduceSync(new Float32Array(1)));
       console.log(fromScript, fromTest, exitCode, ranks[0]?.stdout, RanksFailed);`,
    );
    await succeed(project, 'npx', ['--no', '--', 'tsc', '-p', 'tsconfig.json']);
  });

  test('compiles with a TypeScript and a resolver that do not know `exports`', async () => {
    const entries = Object.keys(JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')).exports);
    // tensorflow, keras and jax need their framework's types.
    const names = entries.filter((entry) => !/tensorflow|keras|jax|typescript|json$/.test(entry));
    assert.ok(names.includes('./tensorboard'));
    const lines = names.map(
      (name, i) => `import * as m${i} from 'horovod${name.slice(1)}';\nconsole.log(m${i});`,
    );
    writeProject(
      'old.ts',
      `${lines.join('\n')}\n// @ts-expect-error it has types\nconst wrong: string = m0.rank();`,
    );
    const options =
      '--noEmit --strict --skipLibCheck --target es2022 --lib esnext --module commonjs --types node';
    const compiler = join(project, 'node_modules/old-typescript/lib/tsc.js');
    const resolver = ['--moduleResolution', 'node'];
    await succeed(project, process.execPath, [compiler, ...options.split(' '), ...resolver, 'old.ts']);
  });

  test('finds every entry point without `exports`', () => {
    const { main, types, typesVersions, exports } = JSON.parse(
      readFileSync(join(installed, 'package.json'), 'utf8'),
    );
    assert.deepEqual([main, types], [exports['.'].default, exports['.'].types]);
    const old = Object.entries(typesVersions['*']).map(([name, [file]]) => [`./${name}`, `./${file}`]);
    const fresh = Object.entries(exports).flatMap(([name, { types }]) =>
      name === '.' || types === undefined ? [] : [[name, types]],
    );
    assert.deepEqual(old.sort(), fresh.sort());
  });

  test('imports it as an ES module and gets a job of one rank', async () => {
    writeProject(
      'single.mjs',
      `import * as hvd from 'horovod';
       await hvd.init();
       const sum = await hvd.allreduce(new Float32Array([3]), { op: hvd.Sum });
       console.log(JSON.stringify({ rank: hvd.rank(), size: hvd.size(), sum: sum[0] }));
       await hvd.shutdown();`,
    );
    const { stdout } = await succeed(project, process.execPath, ['single.mjs']);
    assert.deepEqual(JSON.parse(stdout), { rank: 0, size: 1, sum: 3 });
  });

  test('requires it from CommonJS', async () => {
    writeProject(
      'single.cjs',
      `const hvd = require('horovod'); console.log(typeof hvd.allreduceSync, typeof require('horovod/tensorboard').logdir);`,
    );
    const { stdout } = await succeed(project, process.execPath, ['single.cjs']);
    assert.equal(stdout.trim(), 'function function');
  });

  const twoRanks = `import * as hvd from 'horovod';
    await hvd.init();
    const sum = hvd.allreduceSync(new Float32Array([hvd.rank() + 1, 10]), { op: hvd.Sum });
    console.log(JSON.stringify({ rank: hvd.rank(), sum: [...sum], native: hvd.nativeBuilt() }));
    await hvd.shutdown();`;

  async function launch(env) {
    writeProject('ranks.mjs', twoRanks);
    const { stdout } = await succeed(project, 'npx', ['horovodrun', '-np', '2', 'ranks.mjs'], env);
    const lines = stdout.split('\n').filter((line) => line.includes('{'));
    return lines.map((line) => JSON.parse(line.slice(line.indexOf('{')))).sort((a, b) => a.rank - b.rank);
  }

  test('has the Python files that other programs need, and horovod path finds them', async () => {
    const { stdout } = await succeed(project, 'npx', ['horovod', 'path', 'spark/horovod_spark.py']);
    const folder = realpathSync(installed);
    assert.equal(stdout.trim(), join(folder, 'python/spark/horovod_spark.py'));
    assert.ok(existsSync(join(folder, 'python/spark/compute_worker.py')));
  });

  test('runs two ranks with horovodrun and the addon of the tarball', async (t) => {
    if (!hasAddon()) return t.skip('this checkout has no addon: there was no C++ compiler');
    assert.deepEqual(await launch({}), [
      { rank: 0, sum: [3, 20], native: true },
      { rank: 1, sum: [3, 20], native: true },
    ]);
  });

  test('runs two ranks with horovodrun and HOROVOD_NATIVE=0', async () => {
    const results = await launch({ HOROVOD_NATIVE: '0' });
    assert.deepEqual(
      results.map(({ rank, sum }) => ({ rank, sum })),
      [
        { rank: 0, sum: [3, 20] },
        { rank: 1, sum: [3, 20] },
      ],
    );
  });

  test('runs a TypeScript file with horovodrun, without a build step', async () => {
    writeProject(
      'ranks.ts',
      `import { allgatherSync, init, rank, shutdown } from 'horovod';
       await init();
       const all: Int32Array = allgatherSync(Int32Array.of(rank()));
       if (rank() === 0) console.log('ranks ' + all.join(' '));
       await shutdown();`,
    );
    const { stdout } = await succeed(project, 'npx', ['horovodrun', '-np', '2', 'ranks.ts']);
    assert.match(stdout, /ranks 0 1/);
  });

  test('tests its script with horovod/testing, and with a rank that is killed', async () => {
    writeProject(
      'steps.ts',
      `import * as hvd from 'horovod';
       await hvd.init();
       for (let step = 1; step <= 3; step++) {
         hvd.allreduceSync(new Float32Array(4));
         hvd.markStep();
         console.log('step ' + step);
       }
       await hvd.shutdown();`,
    );
    writeProject(
      'steps.test.mjs',
      `import assert from 'node:assert/strict';
       import { test } from 'node:test';
       import { runRanks, spawnRanks } from 'horovod/testing';
       test('in one process', async () => {
         const sums = await runRanks(3, async (hvd) => (await hvd.allreduce(Int32Array.of(hvd.rank()), { op: hvd.Sum }))[0]);
         assert.deepEqual(sums, [3, 3, 3]);
       });
       test('as processes', async () => {
         const { exitCode, ranks } = await spawnRanks(2, 'steps.ts');
         assert.deepEqual([exitCode, ranks[1].stdout], [0, 'step 1\\nstep 2\\nstep 3\\n']);
       });
       test('with a fault', async () => {
         const { exitCode, ranks } = await spawnRanks(2, 'steps.ts', { faults: [{ rank: 1, step: 2, kind: 'kill' }] });
         assert.deepEqual([exitCode, ranks[1].stdout], [137, 'step 1\\n']);
       });`,
    );
    await succeed(project, process.execPath, ['--test', 'steps.test.mjs']);
  });

  test('learns from Node that horovod/tensorflow needs @tensorflow/tfjs', async () => {
    writeProject('without.mjs', `import 'horovod/tensorflow';`);
    const { code, stderr } = await runIn(project, process.execPath, ['without.mjs']);
    assert.notEqual(code, 0);
    assert.match(stderr, /Cannot find package '@tensorflow\/tfjs'/);
  });

  test('trains a TensorFlow.js model on two ranks, from TypeScript', async () => {
    // The checkout's copy: TensorFlow.js has 300 MB, and which copy it is does not matter here.
    symlinkSync(join(checkout, 'node_modules/@tensorflow'), join(project, 'node_modules/@tensorflow'));
    writeProject(
      'train.ts',
      `import * as tf from '@tensorflow/tfjs';
       import * as hvd from 'horovod/keras';
       await hvd.init();
       await hvd.setBackend('wasm');
       const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
       const optimizer: tf.SGDOptimizer = hvd.DistributedOptimizer(tf.train.sgd(0.1));
       model.compile({ optimizer, loss: 'meanSquaredError' });
       const callbacks = [new hvd.callbacks.BroadcastGlobalVariablesCallback(0), new hvd.callbacks.MetricAverageCallback()];
       await model.fit(tf.ones([8, 1]), tf.ones([8, 1]), { epochs: 2, verbose: 0, callbacks });
       const [weight] = model.getWeights() as [tf.Tensor];
       const all = await hvd.allgatherObject(weight.dataSync()[0]);
       if (hvd.rank() === 0) console.log('weights', all[0] === all[1], all.length);
       await hvd.shutdown();`,
    );
    const { stdout } = await succeed(project, 'npx', ['horovodrun', '-np', '2', 'train.ts']);
    assert.match(stdout, /weights true 2/);
  });

  test('trains the program of the README on two ranks', async () => {
    const readme = readFileSync(join(checkout, 'README.md'), 'utf8');
    const [, program] = /```ts\n(\/\/ train\.ts\n.*?)```/s.exec(readme) ?? [];
    assert.ok(program !== undefined, 'README.md begins with a program called train.ts');
    writeProject('readme-train.ts', program);
    const { stdout } = await succeed(project, 'npx', ['horovodrun', '-np', '2', 'readme-train.ts']);
    const [, accuracy] = /Epoch 3\/3 .* acc (\S+)/.exec(stdout) ?? [];
    assert.ok(Number(accuracy) > 0.95, stdout);
    assert.ok(existsSync(join(project, 'circle/model.json')), 'hvd.saveModel() has written the model');
  });
});
