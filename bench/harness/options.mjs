// The flags of all benchmarks, in one place: reads argv into a plain object, or throws an error that says what is wrong, and writes
// the help text. A benchmark says what it has besides the common flags.
import { parseArgs } from 'node:util';

export const KiB = 1024;
export const MiB = 1024 * KiB;

/**
 * The flags of one benchmark.
 * @param bench `name` (npm run bench:<name>), `about` (help text), `rounds` and `quick: { rounds, about }`, without rounds where everything
 * runs once; `texts`: flags with any value, name → help; `lists`: flags that choose among values, name → { values, about? }; `isSingle` for one choice only;
 * `canInstall` and `hasRoot`: whether it has --no-install and --root; `refine`: changes the options that were read.
 */
export function benchOptions(bench) {
  const { name, rounds, quick, texts = {}, lists = {}, canInstall = false, hasRoot = false } = bench;
  const flags = {
    quick: {
      about: `${quick.about}${rounds === undefined ? '' : `, ${count(quick.rounds)}`}: a quick check, not a result`,
    },
    ...(rounds !== undefined && {
      rounds: { operand: 'N', about: `how often everything runs (${rounds}; ${quick.rounds} with --quick)` },
    }),
    ...mapValues(texts, (about) => ({ operand: 'VALUE', about })),
    ...mapValues(lists, ({ values, about, isSingle }) => ({
      operand: isSingle ? 'NAME' : 'LIST',
      about: `${values.join(',')} (${about ?? (isSingle ? values[0] : 'all')})`,
    })),
    ...(canInstall && { 'no-install': { about: 'do not install missing peers; report them as missing' } }),
    ...(hasRoot && { root: { operand: 'DIR', about: 'measure the build in another checkout' } }),
    json: { operand: 'FILE', about: `where the figures go (bench/results/${resultFile(name, '<date>')})` },
    check: { about: 'exit with 1 if a target is missed or something could not be measured' },
    help: { about: 'this text' },
  };
  return {
    help: `npm run bench:${name} -- [flags]\n\n${bench.about}\n\n${helpLines(flags)}\n`,
    parse: (argv) => {
      const options = readFlags(argv, flags, bench);
      return bench.refine?.(options) ?? options;
    },
  };
}

/** Results of bench:collectives have no name in front. */
export function resultFile(name, date) {
  return `${name === 'collectives' ? '' : `${name}-`}${date}.json`;
}

/** 4096, 4K, 4KiB and 4kb are the same number: everything here counts in powers of two. */
export function parseBytes(text) {
  const match = /^(\d+)\s*([kmg]?)(?:i?b)?$/i.exec(text.trim());
  const bytes = match && Number(match[1]) * 1024 ** ['', 'k', 'm', 'g'].indexOf(match[2].toLowerCase());
  if (!bytes || bytes % 4 !== 0 || bytes > 2 ** 31) {
    throw new Error(
      `"${text}" is not a size: use a multiple of 4 bytes up to 2G, for example 4, 64K or 16M.`,
    );
  }
  return bytes;
}

function readFlags(argv, flags, { rounds, quick, lists = {} }) {
  const { values } = parseArgs({
    args: argv,
    options: mapValues(flags, ({ operand }) =>
      operand === undefined ? { type: 'boolean', default: false } : { type: 'string' },
    ),
  });
  return {
    ...values,
    rounds: values.rounds === undefined ? (values.quick ? quick.rounds : rounds) : parseCount(values.rounds),
    install: !values['no-install'],
    ...Object.fromEntries(
      Object.entries(lists).map(([name, list]) => [name, parseList(name, values[name], list)]),
    ),
  };
}

function parseCount(text) {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new Error(`--rounds takes a whole number from 1, not "${text}".`);
  return Number(text);
}

function parseList(name, text, { values, isSingle = false }) {
  if (text === undefined) return isSingle ? values[0] : [...values];
  const items = text.split(',').filter((item) => item !== '');
  const unknown = items.filter((item) => !values.includes(item));
  if (unknown.length > 0 || items.length === 0) {
    throw new Error(`--${name}: there is no "${unknown.join('", "')}"; choose from ${values.join(', ')}.`);
  }
  if (isSingle && items.length > 1) throw new Error(`--${name} takes one of ${values.join(', ')}.`);
  return isSingle ? items[0] : values.filter((value) => items.includes(value));
}

function helpLines(flags) {
  return Object.entries(flags)
    .map(([name, { operand, about }]) => `  ${`--${name} ${operand ?? ''}`.padEnd(20)}${about}`)
    .join('\n');
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}

function count(rounds) {
  return `${rounds} round${rounds === 1 ? '' : 's'}`;
}
