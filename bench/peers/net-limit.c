// The wire without an allreduce: two processes on two hosts send each other N bytes at the same time and wait for those of the
// other, which is the least an allreduce over two ranks can do. A yardstick, not a limit: one thread, one socket, the kernel's own
// buffer sizes; a program that schedules its calls better can be quicker. Prints one JSON line a size on the connecting side.
// Usage: net-limit listen PORT BYTES...   |   net-limit connect ADDRESS PORT BYTES...
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
static void fail(const char *what) {
  perror(what);
  exit(1);
}

/** Sleeps only after a while of trying, as its competitors do: what a wake-up costs is the machine's, not the wire's. */
static void exchange(int fd, const char *out, char *in, size_t bytes) {
  size_t sent = 0, received = 0;
  double idle_since = 0;
  while (sent < bytes || received < bytes) {
    int moved = 0;
    if (sent < bytes) {
      ssize_t n = send(fd, out + sent, bytes - sent, MSG_NOSIGNAL);
      if (n > 0) sent += (size_t)n, moved = 1;
      else if (errno != EAGAIN) fail("send");
    }
    if (received < bytes) {
      ssize_t n = recv(fd, in + received, bytes - received, 0);
      if (n > 0) received += (size_t)n, moved = 1;
      else if (n == 0) exit(1);
      else if (errno != EAGAIN) fail("recv");
    }
    if (moved) idle_since = 0;
    else if (idle_since == 0) idle_since = now();
    if (moved || bytes < 16384 || now() - idle_since < 200) continue;
    struct pollfd wait = {fd, (short)((sent < bytes ? POLLOUT : 0) | (received < bytes ? POLLIN : 0)), 0};
    poll(&wait, 1, 1000);
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  int listening = !strcmp(argv[1], "listen"), first = listening ? 3 : 4;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[first - 1]))};
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (listening) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1)) fail("listen");
    fd = accept(fd, 0, 0);
  } else {
    inet_pton(AF_INET, argv[2], &address.sin_addr);
    for (int tries = 0; connect(fd, (struct sockaddr *)&address, sizeof address); tries++) {
      if (tries == 200) fail("connect");
      usleep(20000);
      close(fd);
      fd = socket(AF_INET, SOCK_STREAM, 0);
    }
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  for (int s = first; s < argc; s++) {
    size_t bytes = strtoull(argv[s], 0, 10);
    char *out = malloc(bytes), *in = malloc(bytes);
    memset(out, 1, bytes);
    memset(in, 2, bytes);
    int per = bytes >= 16384 ? 1 : 200, rounds = bytes >= (64u << 20) ? 7 : bytes >= (1u << 20) ? 30 : 101;
    double us[128];
    for (int r = -3; r < rounds; r++) {
      exchange(fd, out, in, 1);
      double start = now();
      for (int k = 0; k < per; k++) exchange(fd, out, in, bytes);
      if (r >= 0) us[r] = (now() - start) / per;
    }
    qsort(us, (size_t)rounds, sizeof *us, ascending);
    if (!listening) printf("{\"peer\":\"wire\",\"bytes\":%zu,\"us\":%.3f}\n", bytes, us[rounds / 2]);
    free(out);
    free(in);
  }
}
