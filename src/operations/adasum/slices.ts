// Who works on which elements in an Adasum. All tensors of a call lie one behind the other and are counted as one row of
// elements; a *slice* is a range of that row. In a *stage* members that stand `stride` apart come together in parties of
// `count`: each cuts its slice into `count` parts and keeps the one of its place in the party, of everybody's vector.
// Pure: numbers in, numbers out.

export interface Stage {
  readonly stride: number;
  readonly count: number;
}

/** Elements [start, end) of the row. */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** The elements of one tensor that lie in a slice. */
export interface Segment {
  readonly tensor: number;
  /** Places in the tensor. */
  readonly from: number;
  readonly to: number;
}

/**
 * One stage among all members; two where each host has the same power of two of members in a row: first inside the hosts,
 * then between the members with the same place on theirs, so that what goes from host to host is 1/(members of a host) of
 * it. The tree is the same, and with it the result but for rounding.
 */
export function stagesOf(size: number, hostOf: readonly number[] | undefined): Stage[] {
  const perHost = membersPerHost(size, hostOf);
  if (perHost === 1 || perHost === size) return [{ stride: 1, count: size }];
  return [
    { stride: 1, count: perHost },
    { stride: perHost, count: size / perHost },
  ];
}

/** The members of `member`'s party in a stage, in order. */
export function partyOf(member: number, { stride, count }: Stage): number[] {
  const first = member - placeOf(member, { stride, count }) * stride;
  return Array.from({ length: count }, (_, place) => first + place * stride);
}

/** Where `member` stands in its party. */
export function placeOf(member: number, { stride, count }: Stage): number {
  return Math.floor(member / stride) % count;
}

/** The part of a slice that place `place` of `count` gets. */
export function partOf({ start, end }: Slice, place: number, count: number): Slice {
  const length = end - start;
  return {
    start: start + Math.floor((length * place) / count),
    end: start + Math.floor((length * (place + 1)) / count),
  };
}

/** What `member` holds after these stages. */
export function sliceAfter(member: number, stages: readonly Stage[], elements: number): Slice {
  return stages.reduce<Slice>((slice, stage) => partOf(slice, placeOf(member, stage), stage.count), {
    start: 0,
    end: elements,
  });
}

/** `lengths` are those of the tensors; empty segments are left out. */
export function segmentsOf({ start, end }: Slice, lengths: readonly number[]): Segment[] {
  const segments: Segment[] = [];
  let first = 0;
  lengths.forEach((length, tensor) => {
    const from = Math.max(start - first, 0);
    const to = Math.min(end - first, length);
    if (from < to) segments.push({ tensor, from, to });
    first += length;
  });
  return segments;
}

export function isPowerOfTwo(size: number): boolean {
  return size > 0 && Number.isInteger(Math.log2(size));
}

/** 1 if they are placed in any other way. */
function membersPerHost(size: number, hostOf: readonly number[] | undefined): number {
  if (hostOf === undefined || hostOf.length !== size) return 1;
  const next = hostOf.findIndex((host) => host !== hostOf[0]);
  const perHost = next < 0 ? size : next;
  if (!isPowerOfTwo(perHost) || size % perHost !== 0) return 1;
  const isRegular = hostOf.every((host, member) => host === hostOf[member - (member % perHost)]);
  return isRegular && new Set(hostOf).size === size / perHost ? perHost : 1;
}
