// A hint for the loop that follows, in the words of each compiler.
#pragma once

// No iteration reads what an earlier one wrote.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif
