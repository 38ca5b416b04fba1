// Runs the stages of `npm test`: one after the other, except for those that are patient (`isPatient`). A patient stage starts in its
// place and runs beside those that follow. Its output is printed when one of them has ended, so that lines do not mix.

/**
 * Resolves to { stage, result, seconds } of each, in their order. `chosen` has the stages, each with its plan, as planStage() makes it;
 * a stage gets { tests?, reason?, filter, fetched?, print? }, the last only if it runs beside others. After a stage that is required
 * and fails, none runs.
 */
export async function runInOrder(chosen, { filter, write = (text) => process.stdout.write(text) }) {
  const results = [];
  const beside = [];
  const fetches = new Map();
  const heading = ({ name, about }) => `\n── ${name}: ${about}\n`;
  for (const [place, { stage, plan }] of chosen.entries()) {
    const following = chosen.slice(place);
    // Downloads begin with the first stage that neither installs packages nor builds.
    if (!following.some((each) => each.stage.isRequired)) startFetches(chosen, fetches);
    const context = { ...plan, filter, fetched: fetches.get(stage) };
    if (stage.isPatient && following.some((each) => !each.stage.isPatient)) {
      const patient = { text: heading(stage) };
      const print = (text) => (patient.text += text);
      // One by one: each of them can use all cores.
      patient.result = Promise.resolve(beside.at(-1)?.result).then(() => timed(stage, { ...context, print }));
      void patient.result.then(() => (patient.isOver = true));
      beside.push(patient);
      results.push(patient.result);
      continue;
    }
    write(heading(stage));
    const result = await timed(stage, context);
    results.push(result);
    for (const patient of beside.filter(({ isOver }) => isOver)) printOnce(patient, write);
    // No later stage could succeed, and the errors of this one should be the last lines on the screen.
    if (stage.isRequired && result.result.failed > 0) break;
  }
  for (const patient of beside) {
    await patient.result;
    printOnce(patient, write);
  }
  return Promise.all(results);
}

async function timed(stage, context) {
  const startedAt = performance.now();
  const result = await runStage(stage, context);
  return { stage, result, seconds: (performance.now() - startedAt) / 1000 };
}

/** An error that a stage throws is printed and counts as a failure. */
async function runStage(stage, context) {
  if (context.reason !== undefined) return { passed: 0, failed: 0, skipped: 1, reason: context.reason };
  try {
    return await stage.run(context);
  } catch (error) {
    console.log(`✖ ${stage.name}: ${error.stack ?? error}`);
    return { passed: 0, failed: 1, skipped: 0 };
  }
}

function printOnce(patient, write) {
  write(patient.text);
  patient.text = '';
}

function startFetches(chosen, fetches) {
  for (const { stage, plan } of chosen) {
    if (stage.fetch === undefined || plan.reason !== undefined || fetches.has(stage)) continue;
    const fetched = stage.fetch();
    fetched.catch(() => {}); // the stage reports it
    fetches.set(stage, fetched);
  }
}
