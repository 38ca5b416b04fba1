// `npm test`: the one command that checks everything, stage by stage, and ends in the line
// `N passed, N failed[, N skipped]`. A stage that cannot run here (no compiler, no network for another Node)
// is skipped and says why; anything left behind after the run is a failure. `--help` lists the options.

import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { affectedSince } from './lib/changes.mjs';
import { findLeftovers, snapshot } from './lib/leftovers.mjs';
import { planStage, runStage, stages } from './lib/test-stages.mjs';
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
  // Everything started below inherits this variable, which is how a process left behind is recognised.
  const runId = randomUUID();
  process.env['HVD_TEST_RUN'] = runId;
  const before = snapshot();

  const results = [];
  const chosen = chooseStages().map((stage) => ({ stage, plan: planStage(stage, change) }));
  const fetches = new Map();
  for (const [place, { stage, plan }] of chosen.entries()) {
    console.log(`\n── ${stage.name}: ${stage.about}`);
    const startedAt = performance.now();
    // Downloads begin with the first stage that neither installs packages nor builds.
    if (!chosen.slice(place).some((later) => later.stage.isRequired)) startFetches(chosen, fetches);
    const fetched = fetches.get(stage);
    const result = await runStage(stage, { ...plan, filter: values.filter ?? '', fetched });
    results.push({ stage, result, seconds: (performance.now() - startedAt) / 1000 });
    // Nothing after it could succeed, and its errors should be the last thing on the screen.
    if (stage.isRequired && result.failed > 0) break;
  }

  const leftovers = await findLeftovers(runId, before);
  results.push({
    stage: { name: 'leftovers' },
    result: { passed: leftovers.length === 0 ? 1 : 0, failed: leftovers.length, skipped: 0, leftovers },
    seconds: 0,
  });
  for (const line of summaryLines(results)) console.log(line);
  return totalOf(results).failed === 0 ? 0 : 1;
}

function startFetches(chosen, fetches) {
  for (const { stage, plan } of chosen) {
    if (stage.fetch === undefined || plan.reason !== undefined || fetches.has(stage)) continue;
    const fetched = stage.fetch();
    fetched.catch(() => {}); // the stage reports it
    fetches.set(stage, fetched);
  }
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
