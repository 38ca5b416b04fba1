// What a result of bench/chaos.mjs says: the comparison of the two runs, targets, tables for people, notes.
import { MIX } from './chaos-faults.mjs';

/** The targets are for so many seconds with so many faults. */
const FULL_RUN = { seconds: 1800, faults: Object.values(MIX).reduce((sum, count) => sum + count) };
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
    computed: computedSamples(disturbed.injected),
    losses: { undisturbed: plain, disturbed: own, difference: Math.abs(own - plain) / plain },
    stepsWithOtherSamples: different,
    differentLosses: new Set(disturbed.ends.map(({ loss }) => loss)).size,
  };
}

/** What a full run would have of the samples of an undisturbed one, if its faults cost what these have cost; undefined: a kind is missing. */
export function computedSamples(injected) {
  const costs = Object.entries(MIX).map(([kind, count]) => {
    const known = injected.filter((fault) => fault.kind === kind && fault.seconds !== undefined);
    return (count * known.reduce((sum, { seconds }) => sum + seconds, 0)) / known.length;
  });
  const share = 1 - costs.reduce((sum, seconds) => sum + seconds) / FULL_RUN.seconds;
  return Number.isNaN(share) ? undefined : share;
}

const isFullRun = ({ seconds, faults }) => seconds >= FULL_RUN.seconds && faults >= FULL_RUN.faults;

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
  options,
  samples,
  computed,
  losses,
  stepsWithOtherSamples,
  differentLosses,
  undisturbed,
  disturbed,
}) {
  const share = isFullRun(options) ? samples : computed;
  const how = isFullRun(options) ? '' : `, computed for ${FULL_RUN.faults} faults in ${FULL_RUN.seconds} s`;
  return [
    ...(share === undefined
      ? []
      : [
          {
            target: `≥ ${SAMPLES_TARGET * 100} % of the samples of an undisturbed run${how}`,
            met: share >= SAMPLES_TARGET,
          },
        ]),
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
  computed,
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
    ...(computed === undefined
      ? []
      : [
          [
            `the same, computed for ${FULL_RUN.faults} faults in ${FULL_RUN.seconds} s`,
            '100 %',
            `${(computed * 100).toFixed(1)} %`,
          ],
        ]),
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
      head: ['step', 'kind', 'what', 'cost, s'],
      rows: injected.map(({ step, kind, what, seconds }) => [
        String(step),
        kind,
        what,
        seconds?.toFixed(2) ?? '',
      ]),
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
  if (!isFullRun(options))
    sentences.push(
      `This is not a full run, which is ${FULL_RUN.seconds} s with ${FULL_RUN.faults} faults: ${mixText()}.`,
    );
  return sentences;
}

function mixText() {
  return Object.entries(MIX)
    .map(([kind, count]) => `${count} × ${kind}`)
    .join(', ');
}
