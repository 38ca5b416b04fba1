// What a result of bench/chaos.mjs says: the comparison of the two runs, targets, tables for people, notes.

/** Share of the samples of an undisturbed run in the same time. */
const SAMPLES_TARGET = 0.977;
/** Relative difference of the final losses. */
const LOSS_TARGET = 1e-3;
/** The first rank of a host has some more than others, and so has one with another way to the launcher. A leak would add some with every reset. */
const DESCRIPTORS_MARGIN = 3;

export function compareRuns(undisturbed, disturbed) {
  const different = [];
  for (const [step, samples] of undisturbed.steps) {
    if (samples !== disturbed.steps.get(step)) different.push(step);
  }
  const [plain, own] = [undisturbed, disturbed].map(({ ends }) => ends.find(({ rank }) => rank === 0)?.loss);
  return {
    undisturbed: outline(undisturbed),
    disturbed: outline(disturbed),
    injected: disturbed.injected,
    samples: undisturbed.seconds / disturbed.seconds,
    losses: { undisturbed: plain, disturbed: own, difference: Math.abs(own - plain) / plain },
    stepsWithOtherSamples: different,
    differentLosses: new Set(disturbed.ends.map(({ loss }) => loss)).size,
  };
}

function outline({ seconds, generations, ends, steps }) {
  // Of the rank that has most.
  const [numTensors, descriptors] = ['numTensors', 'descriptors'].map((what) =>
    Math.max(...ends.map((end) => end[what])),
  );
  return {
    seconds,
    generations,
    steps: steps.size,
    ranksAtTheEnd: ends.length,
    numTensors,
    descriptors,
  };
}

export function judgeChaos({
  samples,
  losses,
  stepsWithOtherSamples,
  differentLosses,
  undisturbed,
  disturbed,
}) {
  return [
    {
      target: `≥ ${SAMPLES_TARGET * 100} % of the samples of an undisturbed run`,
      met: samples >= SAMPLES_TARGET,
    },
    { target: `final loss within ${LOSS_TARGET}`, met: losses.difference <= LOSS_TARGET },
    { target: 'the same samples in every step', met: stepsWithOtherSamples.length === 0 },
    { target: 'the same loss on all ranks', met: differentLosses === 1 },
    { target: 'no more tensors at the end', met: disturbed.numTensors <= undisturbed.numTensors },
    {
      target: `at most ${DESCRIPTORS_MARGIN} more open descriptors at the end`,
      met: disturbed.descriptors <= undisturbed.descriptors + DESCRIPTORS_MARGIN,
    },
  ];
}

export function chaosTables({
  undisturbed,
  disturbed,
  injected,
  samples,
  losses,
  stepsWithOtherSamples,
  targets,
}) {
  const rows = [
    ['seconds', undisturbed.seconds.toFixed(1), disturbed.seconds.toFixed(1)],
    ['steps', String(undisturbed.steps), String(disturbed.steps)],
    ['generations', String(undisturbed.generations), String(disturbed.generations)],
    ['final loss', losses.undisturbed.toFixed(6), losses.disturbed.toFixed(6)],
    ['samples in the same time', '100 %', `${(samples * 100).toFixed(1)} %`],
    ['steps with other samples', '', String(stepsWithOtherSamples.length)],
    ['tensors at the end', String(undisturbed.numTensors), String(disturbed.numTensors)],
    ['open descriptors at the end', String(undisturbed.descriptors), String(disturbed.descriptors)],
  ];
  return [
    {
      title: 'Training with faults, 4 ranks on 2 hosts in a box',
      head: ['', 'undisturbed', 'with faults'],
      rows,
    },
    {
      title: 'Faults',
      head: ['step', 'kind', 'what'],
      rows: injected.map(({ step, kind, what }) => [String(step), kind, what]),
    },
    {
      title: 'Targets',
      head: ['target', ''],
      rows: targets.map(({ target, met }) => [target, met ? 'met' : 'missed']),
    },
  ].filter((table) => table.rows.length > 0);
}

export function chaosNotes({ idleness, options }) {
  const sentences = [`The seed of the faults is ${options.seed}.`];
  if (!idleness.before.idle)
    sentences.push(`The machine was not idle at the start: load ${idleness.before.load[0]}.`);
  return sentences;
}
