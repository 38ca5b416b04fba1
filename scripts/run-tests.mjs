// `npm test` checks everything, stage by stage, and ends with the line `N passed, N failed[, N skipped]`. A stage that cannot run
// here (no compiler, no network to download another Node) is skipped with a reason. Processes or files that are left behind fail
// the run. `--help` lists the options.

import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { affectedSince } from './lib/changes.mjs';
import { findLeftovers, snapshot } from './lib/leftovers.mjs';
import { runInOrder } from './lib/stage-order.mjs';
import { planStage, stages } from './lib/test-stages.mjs';
import { summaryLines, totalOf } from './lib/test-summary.mjs';

const help = `npm test -- [options]

  --changed [REV]    run only what the change affects: files that differ from REV, committed or not, and what imports or names
                     them. REV is by default the commit at which the branch left main. Lint and build always run.
  --only <stage>     run this stage only; may be repeated
  --filter <words>   run only tests whose name matches (stages that run no such tests are left out)
  --list             list the stages
  --help             this text

On CI (CI=true), a test that passes only at the second attempt fails the run.

stages:`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changed: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true },
    filter: { type: 'string' },
    list: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});

if (values.help) console.log(help);
if (values.help || values.list) {
  const width = Math.max(...stages.map((stage) => stage.name.length));
  for (const stage of stages) console.log(`  ${stage.name.padEnd(width)}  ${stage.about}`);
} else {
  process.exitCode = await main();
}

async function main() {
  const unknown = (values.only ?? []).filter((name) => !stages.some((stage) => stage.name === name));
  if (unknown.length > 0) {
    console.error(`no such stage: ${unknown.join(', ')}; npm test -- --list shows them`);
    return 2;
  }
  if (positionals.length > (values.changed ? 1 : 0)) {
    console.error(`unexpected argument: ${positionals.at(-1)}; npm test -- --help shows the options`);
    return 2;
  }
  const change = values.changed ? affectedSince(positionals[0]) : undefined;
  if (change !== undefined) describeChange(change);
  // All processes started below inherit this variable, so that we can find those that are left behind.
  const runId = randomUUID();
  process.env['HVD_TEST_RUN'] = runId;
  const before = snapshot();

  const chosen = chooseStages().map((stage) => ({ stage, plan: planStage(stage, change) }));
  const results = await runInOrder(chosen, { filter: values.filter ?? '' });

  const leftovers = await findLeftovers(runId, before);
  results.push({
    stage: { name: 'leftovers' },
    result: { passed: leftovers.length === 0 ? 1 : 0, failed: leftovers.length, skipped: 0, leftovers },
    seconds: 0,
  });
  for (const line of summaryLines(results)) console.log(line);
  return totalOf(results).failed === 0 ? 0 : 1;
}

function chooseStages() {
  if (values.only !== undefined) return stages.filter((stage) => values.only.includes(stage.name));
  const byDefault = stages.filter(({ onRequest }) => !onRequest);
  if (values.filter !== undefined) return byDefault.filter((stage) => stage.takesFilter || stage.isRequired);
  return byDefault;
}

function describeChange({ base, changed, everything, files }) {
  const scope =
    everything === undefined ? `affecting ${files.size}` : `which affects everything: ${everything}`;
  console.log(`${changed.length} files differ from ${base.slice(0, 12)}, ${scope}`);
}
