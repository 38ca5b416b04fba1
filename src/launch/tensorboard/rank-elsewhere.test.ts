import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostPlan } from '../job-request.ts';
import { rankElsewhereText } from './rank-elsewhere.ts';

const planOf = (hosts: readonly string[], remote: readonly string[]) =>
  ({ slots: hosts.map((hostname) => ({ hostname })), remoteNames: new Set(remote) }) as unknown as HostPlan;

test('if rank 0 runs on another host, the folder must be shared, or TensorBoard can be started there', () => {
  const text = rankElsewhereText(planOf(['far', 'here'], ['far']), '/data/logs') ?? '';
  assert.match(text, /^Rank 0 runs on far and writes the summaries there\./);
  assert.match(text, /--tensorboard-logdir .* a folder that both share/);
  assert.match(text, /`ssh -L 6006:127\.0\.0\.1:6006 far tensorboard --logdir \/data\/logs --port 6006`/);
});

test('nothing is said if rank 0 runs here, or if the folder is on a server', () => {
  assert.equal(rankElsewhereText(planOf(['here', 'far'], ['far']), '/data/logs'), undefined);
  assert.equal(rankElsewhereText(planOf(['far'], ['far']), 'hdfs://nn/logs'), undefined);
});
