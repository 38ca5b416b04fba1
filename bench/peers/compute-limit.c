// Prints {"gflops": …, "gigabytes": …}: what one core of this processor multiplies and adds per second at most (float32, with values that
// stay in registers), and how many bytes it moves (a = b + s · c in memory that no cache holds).
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vec __attribute__((vector_size(BYTES)));
enum { chains = 12, steps = 2000000, floats = 16 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void) {
  double gflops = 0, gigabytes = 0;
  vec sums[chains], factor = {0}, term = {0};
  for (size_t i = 0; i < BYTES / 4; i++) factor[i] = 0.999f, term[i] = 0.001f;
  for (int c = 0; c < chains; c++) sums[c] = term * (float)c;
  for (int round = 0; round < 10; round++) {
    const double start = now();
    for (int i = 0; i < steps; i++) {
#pragma GCC unroll 12
      for (int c = 0; c < chains; c++) sums[c] = sums[c] * factor + term;
    }
    const double rate = 2e-9 * steps * chains * (BYTES / 4) / (now() - start);
    if (rate > gflops) gflops = rate;
  }
  float *a = malloc(4ul * floats), *b = malloc(4ul * floats), *c = malloc(4ul * floats);
  if (!a || !b || !c) return 1;
  for (int i = 0; i < floats; i++) a[i] = 0, b[i] = 1, c[i] = 2;
  for (int round = 0; round < 10; round++) {
    const double start = now();
    for (int i = 0; i < floats; i++) a[i] = b[i] + 0.5f * c[i];
    __asm__ volatile("" ::"r"(a) : "memory");
    const double rate = 12e-9 * floats / (now() - start);
    if (rate > gigabytes) gigabytes = rate;
  }
  float total = a[floats / 2];
  for (int i = 0; i < chains; i++) total += sums[i][0];
  fprintf(stderr, "%g\n", (double)total);
  printf("{\"gflops\": %.1f, \"gigabytes\": %.1f}\n", gflops, gigabytes);
  return 0;
}
