// The bench's flags: reads argv into one plain options object, or throws an error that says what is wrong.
import { parseArgs } from 'node:util';

export const KiB = 1024;
export const MiB = 1024 * KiB;

/** 161 gradients of ResNet-50 as one buffer; measured among the sizes so that the set has peers. */
export const RESNET50_BYTES = 4 * 25_557_032;

export const PEERS = ['openmpi', 'openmpi-tuned', 'gloo', 'memory'];
export const TOPICS = ['allreduce', 'resnet50', 'oversubscribed', 'startup'];

const QUICK_SIZES = [4, 64, KiB, 4 * KiB, 64 * KiB, MiB, 16 * MiB, 64 * MiB];

export const HELP = `npm run bench:collectives -- [flags]

Measures allreduce of this checkout's build against Open MPI (C), Gloo (torch) and the memory of the machine, interleaved,
prints a table per topic and writes the figures as JSON. Progress goes to stderr, tables to stdout.

  --quick             few sizes, 2 rounds: a look, not a result
  --rounds N          how often every peer runs (5; 2 with --quick)
  --sizes LIST        sizes in bytes, K and M understood: 4,64K,16M (4 to 256M in steps of 4x)
  --max-bytes N       leave out larger sizes
  --peers LIST        ${PEERS.join(',')} (all)
  --topics LIST       ${TOPICS.join(',')} (all)
  --no-install        do not install missing peers; name them as missing
  --root DIR          measure the build in another checkout
  --json FILE         where the figures go (bench/results/<date>.json)
  --check             exit 1 when a target is missed, or a peer that was asked for could not be measured
  --help              this text
`;

export function parseOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      sizes: { type: 'string' },
      'max-bytes': { type: 'string' },
      peers: { type: 'string' },
      topics: { type: 'string' },
      'no-install': { type: 'boolean', default: false },
      root: { type: 'string' },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const defaultSizes = values.quick ? QUICK_SIZES : steps(4, 256 * MiB);
  const asked = values.sizes === undefined ? defaultSizes : values.sizes.split(',').map(parseBytes);
  const maxBytes = values['max-bytes'] === undefined ? Infinity : parseBytes(values['max-bytes']);
  const sizes = [...new Set(asked.filter((bytes) => bytes <= maxBytes))].sort((a, b) => a - b);
  if (sizes.length === 0) throw new Error('--max-bytes leaves no size to measure.');
  // The peers' programs hold their sizes in a fixed table; one place is for the ResNet-50 set.
  if (sizes.length > 63) throw new Error(`--sizes takes at most 63 sizes, not ${sizes.length}.`);
  return {
    quick: values.quick,
    rounds: values.rounds === undefined ? (values.quick ? 2 : 5) : parseCount('--rounds', values.rounds),
    sizes,
    maxBytes,
    peers: parseList('--peers', values.peers, PEERS),
    topics: parseList('--topics', values.topics, TOPICS).filter(
      // The set is one size, 102 MB: a smaller limit leaves nothing of it.
      (topic) => topic !== 'resnet50' || RESNET50_BYTES <= maxBytes,
    ),
    install: !values['no-install'],
    root: values.root,
    json: values.json,
    check: values.check,
    help: values.help,
  };
}

/** 4096, 4K, 4KiB and 4kb are the same number: everything here counts in powers of two. */
export function parseBytes(text) {
  const match = /^(\d+)\s*([kmg]?)(?:i?b)?$/i.exec(text.trim());
  const bytes = match && Number(match[1]) * 1024 ** ['', 'k', 'm', 'g'].indexOf(match[2].toLowerCase());
  if (!bytes || bytes % 4 !== 0 || bytes > 2 ** 31) {
    throw new Error(
      `"${text}" is not a size: want a multiple of 4 bytes up to 2G, for example 4, 64K or 16M.`,
    );
  }
  return bytes;
}

function steps(from, to) {
  const sizes = [];
  for (let bytes = from; bytes <= to; bytes *= 4) sizes.push(bytes);
  return sizes;
}

function parseCount(flag, text) {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new Error(`${flag} wants a whole number from 1, not "${text}".`);
  return Number(text);
}

function parseList(flag, text, known) {
  if (text === undefined) return [...known];
  const items = text.split(',').filter((item) => item !== '');
  const strange = items.filter((item) => !known.includes(item));
  if (strange.length > 0)
    throw new Error(`${flag}: no "${strange.join('", "')}"; there are ${known.join(', ')}.`);
  return known.filter((item) => items.includes(item));
}
