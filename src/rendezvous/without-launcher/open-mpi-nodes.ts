// Where Open MPI's environment says that ranks may be: pure functions. Every rank knows the address of mpirun; ranks
// of other machines also have a compressed list of all nodes, and rank 0 is on the first node that has ranks.

/** Hosts of `1234.0;tcp://10.0.0.1,192.168.0.1:5678` and of `…;tcp6://[2001:db8::1]:5678`; others are left out. */
export function hostsOfUri(uri: string): string[] {
  return uri.split(';').flatMap((part) => {
    const match = /^tcp6?:\/\/(.+):\d+$/.exec(part);
    return match === null ? [] : (match[1] as string).split(',').map((host) => host.replaceAll(/[[\]]/g, ''));
  });
}

/** Open MPI 5 tells no addresses, but names the job after mpirun's host: `prterun-host1-4711@1`. */
export function hostOfNamespace(namespace: string): string[] {
  const match = /^prte(?:run)?[-.](.+)[-.]\d+@\d+$/.exec(namespace);
  return match === null ? [] : [match[1] as string];
}

/**
 * Names of `host[1:1-3],gpu[2:7,10]x@0(3)`: a prefix, in brackets the number of digits and ranges of numbers, a suffix;
 * what follows the @ is about topologies. Text that is none gives no names: it is one hint of several.
 */
export function expandNodes(text: string): string[] {
  const [list = ''] = text.split('@');
  const words = list.match(/(?:[^,[\]]|\[[^\]]*\])+/g) ?? [];
  return words.flatMap(expandWord).slice(0, maxNodes);
}

const maxNodes = 4096;

function expandWord(word: string): string[] {
  const match = /^([^[]*)\[(\d+):([\d,-]+)\](.*)$/.exec(word);
  if (match === null) return word.includes('[') ? [] : [word];
  const [, prefix = '', digits = '', ranges = '', suffix = ''] = match;
  return ranges.split(',').flatMap((range) => {
    const [first = Number.NaN, last = first] = range.split('-').map(Number);
    const count = last - first + 1;
    if (!(count > 0 && count <= maxNodes)) return [];
    return Array.from(
      { length: count },
      (_, place) => `${prefix}${String(first + place).padStart(Number(digits), '0')}${suffix}`,
    );
  });
}
