import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { keepOutput } from '../../test/support/command-output.ts';
import { run } from './main.ts';

async function horovod(...argv: string[]): Promise<{ exitCode: number; out: string; error: string }> {
  const output = keepOutput();
  const exitCode = await run(argv, output);
  return { exitCode, ...output.said };
}

describe('the command horovod', () => {
  test('has help, as a whole and of a subcommand', async () => {
    for (const argv of [['--help'], ['-h'], ['help']]) {
      const { exitCode, out } = await horovod(...argv);
      assert.equal(exitCode, 0);
      assert.match(out, /^ {2}status +\S/m);
    }
    const [help, flag] = [await horovod('help', 'status'), await horovod('status', '--help')];
    assert.match(help.out, /^Usage: horovod status/);
    assert.deepEqual(help, flag);
  });

  test('without anything shows its help as an error', async () => {
    const { exitCode, out, error } = await horovod();
    assert.deepEqual([exitCode, out], [2, '']);
    assert.match(error, /^Usage: horovod COMMAND/);
  });

  test('has a version', async () => {
    assert.match((await horovod('--version')).out, /^\d+\.\d+\.\d+\n$/);
  });

  for (const [argv, hint] of [
    [['stauts'], /unknown command "stauts"\. The commands are status/],
    [['help', 'stauts'], /unknown command "stauts"/],
    [['--np', '2'], /unknown option --np\./],
    [['train.ts'], /use `(npx )?horovodrun -np 4 train\.ts`/],
    [['status', '--wacht'], /horovod status: Unknown option[\s\S]*See `(npx )?horovod status --help`/],
  ] as const) {
    test(`does not know ${argv.join(' ')}, and gives a hint`, async () => {
      const { exitCode, error } = await horovod(...argv);
      assert.equal(exitCode, 2);
      assert.match(error, hint);
    });
  }

  test('says that no such job is running', async () => {
    const { exitCode, out, error } = await horovod('status', '--once', '--job', 'nosuchjob');
    assert.deepEqual([exitCode, out], [1, '']);
    assert.match(
      error,
      /^horovod status: user \S+ has no running job on \S+ whose id starts with nosuchjob\./,
    );
  });
});
