// The machine's limit: two processes at once, each copying (memcpy) and adding (a += b); prints one JSON line a size.
// Usage: memory-limit [BYTES...]   (none: 16 KiB to 256 MiB in steps of 4x)
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}
static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  size_t sizes[64], max = 0;
  int count = 0;
  for (int i = 1; i < argc && count < 64; i++) sizes[count++] = strtoull(argv[i], 0, 10);
  if (count == 0)
    for (size_t bytes = 16384; bytes <= 256ull << 20; bytes *= 4) sizes[count++] = bytes;
  for (int i = 0; i < count; i++)
    if (sizes[i] > max) max = sizes[i];
  volatile int *gate = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  // The child spins at the gate: without this it would spin for ever when the parent is killed.
  if (!child) prctl(PR_SET_PDEATHSIG, SIGKILL);
  float *a = malloc(max), *b = malloc(max);
  // Not memset to 0: gcc turns malloc + memset(0) into calloc, and reads of b would then come from the one zero page.
  for (size_t i = 0; i < max / 4; i++) a[i] = 1, b[i] = 2;
  int turn = 0;
  for (int s = 0; s < count; s++) {
    size_t bytes = sizes[s];
    double copy[21], add[21];
    int rounds = bytes >= (64u << 20) ? 7 : 21;
    for (int r = 0; r < rounds; r++) {
      __sync_fetch_and_add(gate, 1);
      for (turn += 2; *gate < turn;) ;
      double start = now();
      memcpy(a, b, bytes);
      double middle = now();
      for (size_t i = 0; i < bytes / 4; i++) a[i] += b[i];
      add[r] = now() - middle;
      copy[r] = middle - start;
    }
    qsort(copy, rounds, sizeof *copy, ascending);
    qsort(add, rounds, sizeof *add, ascending);
    if (child) {
      printf("{\"peer\":\"memcpy\",\"bytes\":%zu,\"us\":%.3f}\n", bytes, copy[rounds / 2]);
      printf("{\"peer\":\"add\",\"bytes\":%zu,\"us\":%.3f}\n", bytes, add[rounds / 2]);
    }
  }
  if (child) wait(0);
}
