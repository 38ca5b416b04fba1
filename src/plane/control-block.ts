// The control block of a job: one small shared file that every rank of a host and the launcher can read and
// write, without any addon. It says who is there, who died of what, and why the job failed. The native plane
// maps the same file (native/src/shm/control.h has the same offsets) and checks it while it waits.
//
// Layout, little-endian, one page for the job and one for each rank:
//   page 0        0 u32 magic   4 u32 ranks   8 u32 failure state (0 none, 1 being written, 2 written)
//                 12 u32 bytes of failure text   512… failure text (JSON of a FailureRecord)
//   page 1+rank   0 u32 state   4 u32 pid   8 u32 life word   12 u32 exit kind   16 i32 exit value
//                 20 u32 bytes of last words   512… last words (JSON of an ErrorRecord)
// Who writes what: page 0 the rank that fails first; a rank's page that rank, but for `exit kind/value`,
// which the launcher writes when the process has ended. The life word belongs to the native plane: a robust
// futex, in which the kernel sets bit 30 when the process dies.

export const controlLayout = {
  pageBytes: 4096,
  magic: 0x31445648,
  job: { magic: 0, ranks: 4, failureState: 8, failureBytes: 12 },
  rank: { state: 0, pid: 4, lifeWord: 8, exitKind: 12, exitValue: 16, lastWordsBytes: 20 },
  textOffset: 512,
  textBytes: 3584,
} as const;

export const rankState = { absent: 0, attached: 1, left: 2 } as const;
export const exitKind = { running: 0, exited: 1, signalled: 2 } as const;
export const ownerDiedBit = 0x40000000;
