// Times MPI_Allreduce(float32, SUM, in place), one operation at a time; prints one JSON line a size on rank 0.
// Usage: mpi-allreduce [BYTES...]   (none: 4 B to 256 MiB in steps of 4x)
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  size_t sizes[64], max = 0;
  int count = 0;
  for (int i = 1; i < argc && count < 64; i++) sizes[count++] = strtoull(argv[i], 0, 10);
  if (count == 0)
    for (size_t bytes = 4; bytes <= 256ull << 20; bytes *= 4) sizes[count++] = bytes;
  for (int i = 0; i < count; i++)
    if (sizes[i] > max) max = sizes[i];
  float *buffer = malloc(max);
  for (size_t i = 0; i < max / 4; i++) buffer[i] = 0;
  for (int s = 0; s < count; s++) {
    size_t bytes = sizes[s];
    int touched = bytes >= 16384, per = touched ? 1 : 200;
    int rounds = bytes >= (64u << 20) ? 7 : bytes >= (1u << 20) ? 30 : 101;
    double us[128];
    for (int r = -3; r < rounds; r++) {
      if (touched)
        for (size_t i = 0; i < bytes / 4; i++) buffer[i] = (float)(i & 7) + (float)rank;
      MPI_Barrier(MPI_COMM_WORLD);
      double start = MPI_Wtime();
      for (int k = 0; k < per; k++) MPI_Allreduce(MPI_IN_PLACE, buffer, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double spent = (MPI_Wtime() - start) * 1e6 / per;
      if (r >= 0) us[r] = spent;
      if (!touched) for (size_t i = 0; i < bytes / 4; i++) buffer[i] = 0;
    }
    qsort(us, rounds, sizeof *us, ascending);
    if (rank == 0) printf("{\"peer\":\"openmpi\",\"bytes\":%zu,\"us\":%.3f}\n", bytes, us[rounds / 2]);
  }
  MPI_Finalize();
}
