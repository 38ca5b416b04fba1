// A process that is killed while it saves a model over an older one leaves one of the two, whole.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { fileHandler } from '../../src/adapters/keras/model-files/file-handler.ts';
import { fixturePath } from '../support/repository.ts';

const script = fixturePath('keras/save-for-ever.ts');
const folder = mkdtempSync(join(tmpdir(), 'horovod-crash-'));
after(() => rmSync(folder, { recursive: true }));

for (const turn of [2, 3, 4]) {
  test(`killed at save ${turn}`, async () => {
    await tf.setBackend('cpu');
    const path = join(folder, 'model'); // the same for all: what one leaves behind is where the next begins
    const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.on('data', (piece: Buffer) => {
      text += piece.toString();
      if (text.includes(`saving ${turn}\n`)) child.kill('SIGKILL');
    });
    await new Promise((resolve) => child.once('close', resolve));
    assert.equal(child.signalCode, 'SIGKILL');
    const last = Number(/saving (\d+)\n$/.exec(text)?.[1]);
    const model = await tf.loadLayersModel(fileHandler(path));
    const values = new Set(model.getWeights().flatMap((weight) => [...weight.dataSync()]));
    assert.equal(values.size, 1, 'weights of two models');
    const [value] = values;
    assert.ok(value === last || value === last - 1, `model ${value} after save ${last}`);
  });
}
