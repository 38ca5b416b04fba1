import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { keepOutput } from '../../../test/support/command-output.ts';
import { loadNative } from '../../transport/native/load.ts';
import { run } from '../main.ts';
import { type Finding, renderSection, type Section } from './finding.ts';
import { tryTransport } from './transports.ts';

async function doctor(...argv: string[]): Promise<{ exitCode: number; out: string; error: string }> {
  const output = keepOutput();
  const exitCode = await run(['doctor', ...argv], output);
  return { exitCode, ...output.said };
}

describe('horovod doctor', () => {
  test('describes the machine, and each lack has its advice in one line', async () => {
    const { exitCode, out } = await doctor('--no-ranks', '--json');
    const { sections } = JSON.parse(out) as { sections: Section[] };
    const find = (name: string): Finding | undefined =>
      sections.flatMap(({ findings }) => findings).find((finding) => finding.name === name);
    assert.match(find('system')?.detail ?? '', new RegExp(`Node ${process.version}, ${process.platform}`));
    assert.equal(find('shm, tcp')?.state, loadNative().built ? 'ok' : 'failed');
    assert.match(find('@tensorflow/tfjs')?.detail ?? '', /^4\./);
    const failed = sections.flatMap(({ findings }) => findings).filter(({ state }) => state === 'failed');
    assert.equal(exitCode, failed.length === 0 ? 0 : 1);
    for (const { advice } of failed) assert.match(advice ?? '', /^\S[^\n]+$/);
  });

  test('tries two ranks over a transport and checks their result', async () => {
    const finding = await tryTransport('portable', AbortSignal.timeout(60_000));
    assert.equal(finding.state, 'ok', finding.detail);
    assert.match(finding.detail, /^allreduce of 1 MiB in \d+(\.\d+)? ms; start and end of the job \d/);
  });

  test('a transport that does not come to an end is given up, with advice', async () => {
    const finding = await tryTransport('portable', AbortSignal.timeout(1));
    assert.equal(finding.state, 'failed');
    assert.doesNotMatch(finding.detail, /\n/);
    assert.match(finding.advice ?? '', /--transport portable/);
  });

  test('rejects options it does not know, and a timeout of nothing', async () => {
    for (const argv of [['--timeout', '0'], ['--timeout', 'soon'], ['now'], ['--jsn']]) {
      const { exitCode, error } = await doctor(...argv);
      assert.equal(exitCode, 2, argv.join(' '));
      assert.match(error, /horovod doctor --help/);
    }
  });

  test('prints findings in columns, and advice below', () => {
    const text = renderSection({
      title: 'Launchers',
      findings: [
        { state: 'ok', name: 'ssh', detail: 'OpenSSH 9' },
        { state: 'absent', name: 'mpirun', detail: 'not found', advice: 'apt-get install openmpi-bin' },
      ],
    });
    assert.equal(
      text,
      'Launchers\n  ✔ ssh     OpenSSH 9\n  – mpirun  not found\n            → apt-get install openmpi-bin\n',
    );
  });
});
