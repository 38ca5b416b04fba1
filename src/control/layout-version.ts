// The version of everything that processes of one host share in memory: control block, segments, arenas, posts, rings. Raise
// it with every change of their layout; builds with different ones must not share any. Ranks compare it, and the version of
// the package, when they introduce themselves.

export const layoutVersion = 4;
