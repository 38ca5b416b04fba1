// Every kind of summary, as the real TensorBoard reads it from our files.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SummaryWriter } from '../../../src/data/events/index.ts';
import { pngSize } from '../../../src/data/events/png.ts';
import { TensorBoardServer, tensorBoardSkip } from '../../support/tensorboard.ts';

const skip = tensorBoardSkip();

describe('TensorBoard shows', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-tensorboard-'));
  let server: TensorBoardServer;

  before(async () => {
    await using writer = new SummaryWriter(join(folder, 'run'));
    void writer.hparams({ lr: 0.1, optimizer: 'adam', nesterov: true });
    void writer.layout({ Training: { loss: ['train/loss', 'validation/loss'] } });
    for (let step = 0; step < 3; step++) {
      void writer.scalars({ 'train/loss': 1 / (step + 1), 'validation/loss': Number.NaN }, step);
      void writer.histogram('weights', Float32Array.of(0, 1, 1, 4), step, { buckets: 4 });
      void writer.image('input', { data: Uint8Array.of(0, 128, 255, 0, 0, 0), width: 2, height: 1 }, step);
      void writer.text('note', `step **${step}**`, step);
    }
    await writer.close();
    server = await TensorBoardServer.start(folder);
    await server.get<string[]>('data/runs', (runs) => runs.includes('run'));
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  test('scalars', async () => {
    type Points = [time: number, step: number, value: number | string][];
    const points = await server.get<Points>(
      'data/plugin/scalars/scalars?run=run&tag=train%2Floss',
      ({ length }) => length === 3,
    );
    assert.deepEqual(
      points.map(([, step, value]) => [step, Number(Number(value).toFixed(4))]),
      [
        [0, 1],
        [1, 0.5],
        [2, 0.3333],
      ],
    );
    const broken = await server.get<Points>(
      'data/plugin/scalars/scalars?run=run&tag=validation%2Floss',
      ({ length }) => length === 3,
    );
    assert.equal(broken[0]?.[2], 'NaN');
  });

  test('histograms', async () => {
    type Histograms = [time: number, step: number, buckets: [number, number, number][]][];
    const found = await server.get<Histograms>(
      'data/plugin/histograms/histograms?run=run&tag=weights',
      ({ length }) => length === 3,
    );
    const buckets = found[2]?.[2] ?? [];
    assert.equal(
      buckets.reduce((sum, [, , count]) => sum + count, 0),
      4,
    );
    assert.deepEqual([buckets[0]?.[0], buckets.at(-1)?.[1]], [0, 4]);
  });

  test('images', async () => {
    type Images = { step: number; query: string }[];
    const images = await server.get<Images>(
      'data/plugin/images/images?run=run&tag=input&sample=0',
      ({ length }) => length === 3,
    );
    assert.deepEqual(
      images.map(({ step }) => step),
      [0, 1, 2],
    );
    const response = await fetch(
      new URL(`data/plugin/images/individualImage?${images[0]?.query}`, server.url),
    );
    assert.equal(response.headers.get('content-type'), 'image/png');
    assert.deepEqual(pngSize(new Uint8Array(await response.arrayBuffer())), { width: 2, height: 1 });
  });

  test('text', async () => {
    type Texts = { step: number; text: string }[];
    const texts = await server.get<Texts>(
      'data/plugin/text/text?run=run&tag=note',
      ({ length }) => length === 3,
    );
    assert.match(texts[1]?.text ?? '', /step <strong>1<\/strong>/);
  });

  test('a layout of charts', async () => {
    type Layout = {
      category?: { title: string; chart: { title: string; multiline: { tag: string[] } }[] }[];
    };
    const layout = await server.get<Layout>(
      'data/plugin/custom_scalars/layout',
      ({ category }) => category !== undefined,
    );
    const [category] = layout.category ?? [];
    assert.equal(category?.title, 'Training');
    assert.deepEqual(
      category?.chart.map(({ title, multiline }) => [title, multiline.tag]),
      [['loss', ['train/loss', 'validation/loss']]],
    );
  });

  test('hyperparameters, beside the metrics of the run', async () => {
    const response = await fetch(new URL('data/plugin/hparams/experiment', server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ experimentName: '' }),
    });
    assert.ok(response.ok, String(response.status));
    const { hparamInfos, metricInfos } = (await response.json()) as {
      hparamInfos: { name: string }[];
      metricInfos: { name: { tag: string } }[];
    };
    assert.deepEqual(hparamInfos.map(({ name }) => name).sort(), ['lr', 'nesterov', 'optimizer']);
    assert.ok(metricInfos.some(({ name }) => name.tag === 'train/loss'));
  });
});
