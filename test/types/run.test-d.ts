// What the compiler must accept and refuse of run(). Never run: compiled against dist/index.d.ts.

import { type RunOptions, run } from 'horovod';

const byFunction: Promise<number[]> = run((a: number, b: string) => a + b.length, { np: 2, args: [1, 'x'] });
const awaited: Promise<string[]> = run(async () => 'x');
const byModule: Promise<unknown[]> = run('./train.ts', { hosts: 'a:2,b:2', args: [1, 'x'] });
const typedModule: Promise<{ loss: number }[]> = run<{ loss: number }>(new URL('file:///train.mjs'));
const options: RunOptions = {
  np: 4,
  hosts: 'a:4',
  env: { HOROVOD_LOG_LEVEL: 'info' },
  transport: 'gloo',
  startTimeoutMs: 1000,
  sshPort: 22,
  sshIdentityFile: 'key',
  networkInterfaces: ['eth0'],
  outputFilename: 'logs',
  showOutput: true,
  prefixOutput: false,
  verbose: true,
  signal: AbortSignal.timeout(1),
};

// @ts-expect-error: the argument is a number
run((a: number) => a, { args: ['x'] });
// @ts-expect-error: np is a number
run(() => 1, { np: '2' });
// @ts-expect-error: neither a function nor a module
run(7);
// @ts-expect-error: no such transport
run(() => 1, { transport: 'warp' });

export { awaited, byFunction, byModule, options, typedModule };
