// Vectors of floats, as wide as the target has them, so that the training kernels are written once: clang compiles them for WebAssembly,
// and the addon contains them for several instruction sets (native/src/compute). The compilers' vector types give +, −, × and
// comparisons. Where the target has a fused multiply-add, `sum += a * b` becomes one.
//
// Words. A *lane* is one float of a vector. `Four` is always four lanes, for what is done by fours on every target.

#pragma once

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name)))
#else
#define EXPORT(name)
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

#define INLINE static inline __attribute__((always_inline))

typedef unsigned int size;

#ifdef __cplusplus
#define restrict __restrict
#endif

// The tile of a matrix product is the part of the result that is kept in registers: tileRows × tileVectors vectors.
#if defined(__AVX512F__)
enum { lanes = 16, tileRows = 8, tileVectors = 2 }; // of 32 registers
#elif defined(__AVX2__)
enum { lanes = 8, tileRows = 6, tileVectors = 2 }; // of 16 registers
#elif defined(__aarch64__)
enum { lanes = 4, tileRows = 8, tileVectors = 2 }; // of 32 registers
#else
enum { lanes = 4, tileRows = 4, tileVectors = 2 };
#endif

typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef int Mask __attribute__((vector_size(4 * lanes)));
typedef float Four __attribute__((vector_size(16)));
typedef int FourMask __attribute__((vector_size(16)));
// As they lie in memory: at any float.
typedef float VectorAt __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef float FourAt __attribute__((vector_size(16), aligned(4), may_alias));

INLINE Vector load(const float *from) { return *(const VectorAt *)from; }
INLINE void store(float *to, Vector v) { *(VectorAt *)to = v; }
INLINE Four loadFour(const float *from) { return *(const FourAt *)from; }
INLINE void storeFour(float *to, Four v) { *(FourAt *)to = v; }
INLINE Vector splat(float value) { return value - (Vector){0}; } // − keeps −0
INLINE Four splatFour(float value) { return value - (Four){0}; }
INLINE Vector zero(void) { return (Vector){0}; }

INLINE size smaller(size a, size b) { return a < b ? a : b; }
INLINE size roundUp(size value, size step) { return (value + step - 1) / step * step; }

/** The values of a where the mask is −1, and those of b where it is 0. */
INLINE Vector choose(Mask mask, Vector a, Vector b) { return (Vector)(((Mask)a & mask) | ((Mask)b & ~mask)); }

INLINE float sumOf(Vector v) {
  float sums[4] = {0, 0, 0, 0};
  UNROLL for (int i = 0; i < lanes; i++) sums[i % 4] += v[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (FourMask){i, j, k, l})
#endif

/** Transposes 4 × 4 floats: row k of the result, tos[k · step …], gets element k of each row. */
INLINE void transposeFours(float *to, size step, Four r0, Four r1, Four r2, Four r3) {
  const Four t0 = SHUFFLE(r0, r1, 0, 4, 1, 5), t1 = SHUFFLE(r2, r3, 0, 4, 1, 5);
  const Four t2 = SHUFFLE(r0, r1, 2, 6, 3, 7), t3 = SHUFFLE(r2, r3, 2, 6, 3, 7);
  storeFour(to, SHUFFLE(t0, t1, 0, 1, 4, 5));
  storeFour(to + step, SHUFFLE(t0, t1, 2, 3, 6, 7));
  storeFour(to + 2 * step, SHUFFLE(t2, t3, 0, 1, 4, 5));
  storeFour(to + 3 * step, SHUFFLE(t2, t3, 2, 3, 6, 7));
}

INLINE void clear(float *out, size count) {
  size i = 0;
  for (; i + lanes <= count; i += lanes) store(out + i, zero());
  for (; i < count; i++) out[i] = 0;
}

INLINE void copy(float *to, const float *from, int count) {
  if (count < 4) {
    for (int i = 0; i < count; i++) to[i] = from[i];
    return;
  }
  int i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(from + i));
  for (; i + 4 <= count; i += 4) storeFour(to + i, loadFour(from + i));
  if (i < count) storeFour(to + count - 4, loadFour(from + count - 4));
}

/** to += a · from */
INLINE void addScaled(float *to, const float *from, int count, float a) {
  int i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(to + i) + splat(a) * load(from + i));
  for (; i + 4 <= count; i += 4) storeFour(to + i, loadFour(to + i) + splatFour(a) * loadFour(from + i));
  for (; i < count; i++) to[i] += a * from[i];
}

INLINE void add(float *to, const float *from, int count) {
  int i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(to + i) + load(from + i));
  for (; i + 4 <= count; i += 4) storeFour(to + i, loadFour(to + i) + loadFour(from + i));
  for (; i < count; i++) to[i] += from[i];
}

/** Scratch memory begins at a line of the cache, so that no vector lies in two; its size includes `alignmentFloats`. */
enum { alignmentFloats = 16 };
INLINE float *aligned(float *scratch) { return (float *)(((__UINTPTR_TYPE__)scratch + 63) & ~(__UINTPTR_TYPE__)63); }
