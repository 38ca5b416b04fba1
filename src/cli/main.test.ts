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
    assert.match(help.out, /^usage: horovod status/);
    assert.deepEqual(help, flag);
  });

  test('without anything shows its help as an error', async () => {
    const { exitCode, out, error } = await horovod();
    assert.deepEqual([exitCode, out], [2, '']);
    assert.match(error, /^usage: horovod SUBCOMMAND/);
  });

  test('has a version', async () => {
    assert.match((await horovod('--version')).out, /^\d+\.\d+\.\d+\n$/);
  });

  for (const [argv, hint] of [
    [['stauts'], /no such thing as the subcommand "stauts"\. There are: status/],
    [['help', 'stauts'], /no such thing as the subcommand "stauts"/],
    [['--np', '2'], /no such thing as the option --np/],
    [['train.ts'], /use horovodrun -np 4 train\.ts/],
    [['status', '--wacht'], /horovod status: Unknown option[\s\S]*try `horovod status --help`/],
  ] as const) {
    test(`does not know ${argv.join(' ')}, and gives a hint`, async () => {
      const { exitCode, error } = await horovod(...argv);
      assert.equal(exitCode, 2);
      assert.match(error, hint);
    });
  }

  test('says so in a sentence when no such job runs', async () => {
    const { exitCode, out, error } = await horovod('status', '--once', '--job', 'nosuchjob');
    assert.deepEqual([exitCode, out], [1, '']);
    assert.match(
      error,
      /^horovod status: no running job of user \S+ on \S+ has an id that begins with nosuchjob\./,
    );
  });
});
