// `npm test`: the one command that checks everything, stage by stage, and ends in the line
// `N passed, N failed[, N skipped]`. A stage that cannot run here (no compiler, no network for another Node)
// is skipped and says why; anything left behind after the run is a failure. `--help` lists the options.

import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { findLeftovers, snapshot } from './lib/leftovers.mjs';
import { runStage, stages } from './lib/test-stages.mjs';

const linesOfFailure = 40;

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    filter: { type: 'string' },
    list: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});

if (values.help) {
  console.log(`npm test -- [options]

  --only <stage>     run this stage only; may be repeated
  --filter <words>   run only tests whose name matches (stages that run no such tests are left out)
  --list             list the stages
  --help             this text

stages:`);
}
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
  // Everything started below inherits this variable, which is how a process left behind is recognised.
  const runId = randomUUID();
  process.env['HVD_TEST_RUN'] = runId;
  const before = snapshot();

  const results = [];
  const chosen = chooseStages();
  const fetches = new Map();
  for (const [place, stage] of chosen.entries()) {
    console.log(`\n── ${stage.name}: ${stage.about}`);
    const startedAt = performance.now();
    // From the first stage on that neither installs packages nor builds.
    if (!chosen.slice(place).some(({ isRequired }) => isRequired)) {
      for (const later of chosen) {
        if (later.fetch === undefined || fetches.has(later)) continue;
        const fetched = later.fetch();
        fetched.catch(() => {}); // the stage will hear it
        fetches.set(later, fetched);
      }
    }
    const result = await runStage(stage, { filter: values.filter ?? '', fetched: fetches.get(stage) });
    results.push({ stage, result, seconds: (performance.now() - startedAt) / 1000 });
    // Nothing after it could succeed, and its errors should be the last thing on the screen.
    if (stage.isRequired && result.failed > 0) break;
  }

  const leftovers = await findLeftovers(runId, before);
  results.push({
    stage: { name: 'leftovers' },
    result: { passed: leftovers.length === 0 ? 1 : 0, failed: leftovers.length, skipped: 0 },
    seconds: 0,
  });
  return summarise(results, leftovers);
}

/** The whole text stands where the stage ran; who sees only the end of a long output needs its beginning. */
function shortened(text) {
  const lines = text.split('\n');
  return lines.length <= linesOfFailure ? text : `${lines.slice(0, linesOfFailure).join('\n')}\n  …`;
}

function chooseStages() {
  if (values.only !== undefined) return stages.filter((stage) => values.only.includes(stage.name));
  const usual = stages.filter(({ whenAsked }) => !whenAsked);
  if (values.filter !== undefined) return usual.filter((stage) => stage.takesFilter || stage.isRequired);
  return usual;
}

function summarise(results, leftovers) {
  console.log('\n── summary');
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { stage, result, seconds } of results) {
    for (const key of Object.keys(total)) total[key] += result[key];
    const numbers = `${result.passed} passed, ${result.failed} failed, ${result.skipped} skipped`;
    const note = result.reason === undefined ? '' : `  (${result.reason})`;
    console.log(
      `${result.failed > 0 ? '✖' : ' '} ${stage.name.padEnd(20)} ${seconds.toFixed(1).padStart(6)} s  ${numbers}${note}`,
    );
  }
  for (const { title, text } of results.flatMap(({ result }) => result.unsteady ?? [])) {
    console.log(`\n⚠ passed at the second attempt only: ${title}\n${shortened(text)}`);
  }
  for (const { title, text } of results.flatMap(({ result }) => result.failures ?? [])) {
    console.log(`\n✖ ${title}\n${shortened(text)}`);
  }
  for (const leftover of leftovers) console.log(`✖ left behind: ${leftover}`);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
  return total.failed === 0 ? 0 : 1;
}
