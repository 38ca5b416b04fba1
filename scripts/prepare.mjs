// The `prepare` script: `npm install` runs it in a clone, and `npm pack` before packing. It compiles TypeScript to dist/ and, if
// there is a C++ compiler, the native addon. It does not run for users who install the packed package, which contains the build.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildPage } from './build-page.mjs';
import { removeStaleOutputs, repositoryRoot, runTool, toolPath } from './lib/tools.mjs';

const isPacking = process.env['npm_command'] === 'pack' || process.env['npm_command'] === 'publish';

// `npm pack --json` prints JSON on stdout, so this script prints to stderr.
const say = (line) => process.stderr.write(`horovod: ${line}\n`);

const hasBuild = existsSync(new URL('../dist/index.js', import.meta.url));

if (!existsSync(new URL('../src/', import.meta.url))) {
  say('nothing to build: this is an installed package, not a clone.');
} else if (toolPath('typescript', 'tsc') === undefined) {
  const advice = 'run `npm install --include=dev` to build.';
  if (hasBuild) say(`TypeScript is not installed, so dist/ stays as it is; ${advice}`);
  else say(`not built: TypeScript (a dev dependency) is not installed; ${advice}`);
  // A package without code must not be packed, but installing only production dependencies is fine.
  if (isPacking && !hasBuild) process.exitCode = 1;
} else {
  await build();
}

async function build() {
  removeStaleOutputs();
  const output = 'stderr';
  const compiled =
    (await runTool('typescript', 'tsc', ['-p', 'tsconfig.json'], { output })) ||
    (await buildPage({ output }));
  if (compiled !== 0) {
    say('TypeScript did not compile; the errors are above.');
    process.exitCode = compiled;
    return;
  }
  const native = fileURLToPath(new URL('./build-native.mjs', import.meta.url));
  const built = await runTool(null, native, [], { output });
  if (built !== 0) {
    say('the native addon did not build; the errors are above.');
    process.exitCode = built;
    return;
  }
  say(`built in ${repositoryRoot}; try \`npm start\` or \`npm test\`.`);
}
