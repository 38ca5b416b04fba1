// What bench:collectives measures: sizes, peers and topics, and their flags.
import { benchOptions, KiB, MiB, parseBytes } from './options.mjs';

/** 161 gradients of ResNet-50 as one buffer; measured among the sizes so that the set has peers. */
export const RESNET50_BYTES = 4 * 25_557_032;

export const PEERS = ['openmpi', 'openmpi-tuned', 'gloo', 'memory'];
export const TOPICS = ['allreduce', 'resnet50', 'oversubscribed', 'calls', 'startup'];

const QUICK_SIZES = [4, 64, KiB, 4 * KiB, 64 * KiB, MiB, 16 * MiB, 64 * MiB];
const SIZES = Array.from({ length: 14 }, (_, i) => 4 ** (i + 1));

export const collectivesOptions = benchOptions({
  name: 'collectives',
  about: `Measures allreduce of this checkout's build against Open MPI (C), Gloo (torch) and the memory of the machine, interleaved.
Prints a table per topic and writes the figures as JSON. Progress goes to stderr, tables to stdout.`,
  rounds: 5,
  quick: { rounds: 2, about: 'few sizes' },
  texts: {
    sizes: 'sizes in bytes, with K and M: 4,64K,16M (4 to 256M in steps of 4x)',
    'max-bytes': 'leave out larger sizes',
  },
  lists: { peers: { values: PEERS }, topics: { values: TOPICS } },
  canInstall: true,
  hasRoot: true,
  refine: (options) => {
    const asked = options.sizes?.split(',').map(parseBytes) ?? (options.quick ? QUICK_SIZES : SIZES);
    const maxBytes = options['max-bytes'] === undefined ? Infinity : parseBytes(options['max-bytes']);
    const sizes = [...new Set(asked.filter((bytes) => bytes <= maxBytes))].sort((a, b) => a - b);
    if (sizes.length === 0) throw new Error('--max-bytes leaves no size to measure.');
    // The peers' programs hold their sizes in a fixed table; one place is for the ResNet-50 set.
    if (sizes.length > 63) throw new Error(`--sizes takes at most 63 sizes, not ${sizes.length}.`);
    // The set is one size, 102 MB: a smaller limit leaves nothing of it.
    const topics = options.topics.filter((topic) => topic !== 'resnet50' || RESNET50_BYTES <= maxBytes);
    return { ...options, sizes, topics };
  },
});
