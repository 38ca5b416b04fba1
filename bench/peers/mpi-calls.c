// Times the collectives of MPI for bench/ranks/calls.mjs, one call at a time, with the protocol of mpi-allreduce.c; prints
// one JSON line a collective and size on rank 0. Bytes are what a rank gives: MPI_Allgather returns that from every rank.
// Usage: mpi-calls [BYTES...]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALLREDUCE, ALLREDUCE_OUT, BROADCAST, ALLGATHER, REDUCESCATTER, ALLTOALL, BARRIER, KINDS };
static const char *names[KINDS] = {"mpi-allreduce", "mpi-allreduce-out", "mpi-broadcast", "mpi-allgather", "mpi-reducescatter", "mpi-alltoall", "mpi-barrier"};

static float *in, *out;
static int size, *counts, *parts, *starts;

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void call(int kind, int elements) {
  switch (kind) {
    case ALLREDUCE: MPI_Allreduce(MPI_IN_PLACE, in, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case ALLREDUCE_OUT: MPI_Allreduce(in, out, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case BROADCAST: MPI_Bcast(in, elements, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case ALLGATHER: MPI_Allgatherv(in, elements, MPI_FLOAT, out, counts, starts, MPI_FLOAT, MPI_COMM_WORLD); break;
    case REDUCESCATTER: MPI_Reduce_scatter(in, out, parts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case ALLTOALL: MPI_Alltoallv(in, parts, starts, MPI_FLOAT, out, parts, starts, MPI_FLOAT, MPI_COMM_WORLD); break;
    default: MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void measure(int kind, size_t bytes, int rank) {
  int elements = (int)(bytes / 4);
  if ((kind == REDUCESCATTER || kind == ALLTOALL) && elements < size) elements = size;
  for (int i = 0; i < size; i++) {
    counts[i] = elements;
    parts[i] = elements / size;
    starts[i] = i * (kind == ALLGATHER ? elements : elements / size);
  }
  int touched = bytes >= 16384, per = touched ? 1 : 200;
  int rounds = bytes >= (64u << 20) ? 7 : bytes >= (1u << 20) ? 30 : 101;
  double us[128];
  for (int r = -3; r < rounds; r++) {
    for (int i = 0; i < elements; i++) in[i] = touched ? (float)(i & 7) + (float)rank : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int k = 0; k < per; k++) call(kind, elements);
    double spent = (MPI_Wtime() - start) * 1e6 / per;
    if (r >= 0) us[r] = spent;
  }
  qsort(us, rounds, sizeof *us, ascending);
  if (rank == 0) printf("{\"peer\":\"%s\",\"bytes\":%zu,\"us\":%.3f}\n", names[kind], bytes, us[rounds / 2]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t max = 64;
  for (int i = 1; i < argc; i++)
    if (strtoull(argv[i], 0, 10) > max) max = strtoull(argv[i], 0, 10);
  in = malloc(max);
  out = malloc(max * (size_t)size);
  counts = malloc(sizeof(int) * (size_t)size);
  parts = malloc(sizeof(int) * (size_t)size);
  starts = malloc(sizeof(int) * (size_t)size);
  for (size_t i = 0; i < max / 4; i++) in[i] = 0;
  for (size_t i = 0; i < max / 4 * (size_t)size; i++) out[i] = 1;
  for (int s = 1; s < argc; s++)
    for (int kind = 0; kind < (s == 1 ? KINDS : BARRIER); kind++) measure(kind, strtoull(argv[s], 0, 10), rank);
  MPI_Finalize();
}
