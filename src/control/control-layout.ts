// Where what is in a control block (control-block.ts). The native transport has the same offsets (native/src/group/control.h).
//
// Layout, little-endian, one page for the job and one for each rank:
//   page 0        0 u32 magic   4 u32 ranks   8 u32 failure state (0 none, 1 being written, 2 written)
//                 16 u32 closed   20 u32 notice   24 u32 generation of an elastic job (0: none)   28 u32 layoutVersion
//                 32 two words, who collects timelines (observe/timeline/ring-registry.ts)
//                 40 u32 how far an order to record a timeline is   64 the order (observe/timeline/record-order.ts)
//                 508 u32 bytes of failure text   512… failure text (JSON of a FailureRecord)
//   page 1+rank   0 u32 state   4 u32 pid   8 u32 life word   12 u32 exit kind   16 i32 exit value
//                 20 u32 bytes of last words   24 u32 start ticks   28 u32 pid on another host
//                 32 u32 bytes of that host's name   64… its name   384 u32 touching   388 u32 killed by the fence
//                 512… last words (JSON of an ErrorRecord)
//   page 1+ranks+rank   what the rank is doing (status-page.ts); the native transport does not know of these
//   page 1+2·ranks      what the driver of an elastic job says about it, as a status page
//   page 2+2·ranks+rank how busy the host is whose first rank this is, as a status page

export const controlLayout = {
  pageBytes: 4096,
  magic: 0x32445648,
  job: {
    magic: 0,
    ranks: 4,
    failureState: 8,
    closed: 16,
    notice: 20,
    generation: 24,
    layoutVersion: 28,
    failureBytes: 508,
  },
  rank: {
    state: 0,
    pid: 4,
    lifeWord: 8,
    exitKind: 12,
    exitValue: 16,
    lastWordsBytes: 20,
    startTicks: 24,
    remotePid: 28,
    hostBytes: 32,
    host: 64,
    touching: 384,
    killedByFence: 388,
  },
  hostLimit: 255,
  textOffset: 512,
  textBytes: 3584,
  statusBytes: 4080,
} as const;

export const rankState = { absent: 0, attached: 1, left: 2 } as const;
/** `unknown`: ended, and nobody knows how. */
export const exitKind = { running: 0, exited: 1, signalled: 2, unknown: 3 } as const;
export const ownerDiedBit = 0x40000000;

export function blockBytes(ranks: number): number {
  return (2 + 3 * ranks) * controlLayout.pageBytes;
}
