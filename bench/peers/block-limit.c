// What a batch that goes from one process to another on this machine costs at least: a process has blocks of BYTES, another one copies
// them to memory of its own. `memory`: the blocks lie in memory that both have, and are copied by memcpy. `tcp`: they go through a
// connection over loopback, with plain send() and recv(). Runs for SECONDS after a warm-up and prints {"bytes": …, "seconds": …}.
// `send` and `receive` are the same between hosts: the one that has the blocks listens, and ends with its connection.
// Usage: block-limit memory|tcp BYTES SECONDS  |  block-limit send PORT BYTES  |  block-limit receive ADDRESS PORT BYTES SECONDS
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { slots = 4, warm_blocks = 8 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
static void fail(const char *what) {
  perror(what);
  exit(1);
}
static void whole_write(int fd, const char *from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = write(fd, from + done, bytes - done);
    if (n <= 0) exit(0);  // the other side is done
    done += (size_t)n;
  }
}
static void whole_read(int fd, char *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = recv(fd, to + done, bytes - done, MSG_WAITALL);
    if (n <= 0) fail("recv");
    done += (size_t)n;
  }
}
static void connected_pair(int is_tcp, int pair[2]) {
  if (!is_tcp) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) fail("socketpair");
    return;
  }
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (bind(listener, (void *)&address, length) || listen(listener, 1)) fail("listen");
  getsockname(listener, (void *)&address, &length);
  pair[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(pair[0], (void *)&address, length)) fail("connect");
  pair[1] = accept(listener, 0, 0);
  for (int i = 0; i < 2; i++) setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void send_blocks(int port, size_t bytes) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1)) fail("listen");
  int fd = accept(listener, 0, 0);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  char *blocks = malloc(slots * bytes);
  memset(blocks, 7, slots * bytes);
  for (int block = 0;; block++) whole_write(fd, blocks + (size_t)(block % slots) * bytes, bytes);
}

static int receive_blocks(const char *host, int port, size_t bytes, double seconds) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  inet_pton(AF_INET, host, &address.sin_addr);
  int fd = -1;
  for (int tries = 0; fd < 0; tries++) {
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (!connect(fd, (void *)&address, sizeof address)) break;
    if (tries == 500) fail("connect");
    close(fd), fd = -1;
    usleep(20000);
  }
  char *own = malloc(bytes);
  memset(own, 1, bytes);
  for (int block = 0; block < warm_blocks; block++) whole_read(fd, own, bytes);
  double start = now(), total = 0;
  do whole_read(fd, own, bytes), total += (double)bytes;
  while (now() - start < seconds);
  if (own[0] != 7 || own[bytes - 1] != 7) return 1;
  printf("{\"bytes\": %.0f, \"seconds\": %.6f}\n", total, now() - start);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  signal(SIGPIPE, SIG_IGN);
  if (!strcmp(argv[1], "send")) return send_blocks(atoi(argv[2]), strtoull(argv[3], 0, 10)), 0;
  if (!strcmp(argv[1], "receive"))
    return argc < 6 ? 2 : receive_blocks(argv[2], atoi(argv[3]), strtoull(argv[4], 0, 10), atof(argv[5]));
  int is_tcp = !strcmp(argv[1], "tcp");
  size_t bytes = strtoull(argv[2], 0, 10);
  double seconds = atof(argv[3]);
  char *shared = mmap(0, slots * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("mmap");
  memset(shared, 7, slots * bytes);
  int pair[2];
  connected_pair(is_tcp, pair);
  if (!fork()) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The one that has the blocks. A byte says that a slot is full, and one comes back when it was copied.
    char byte = 0;
    for (int block = 0;; block++) {
      if (is_tcp) whole_write(pair[0], shared + (size_t)(block % slots) * bytes, bytes);
      else {
        if (block >= slots && read(pair[0], &byte, 1) != 1) return 0;
        whole_write(pair[0], &byte, 1);
      }
    }
  }
  close(pair[0]);
  char *own = malloc(bytes), byte = 0;
  memset(own, 1, bytes);
  double start = 0, total = 0;
  for (int block = 0;; block++) {
    if (block == warm_blocks) start = now(), total = 0;
    if (is_tcp) whole_read(pair[1], own, bytes);
    else {
      whole_read(pair[1], &byte, 1);
      memcpy(own, shared + (size_t)(block % slots) * bytes, bytes);
      // The copy is used: the compiler may not leave it out.
      byte = own[(size_t)block % bytes];
      whole_write(pair[1], &byte, 1);
    }
    if (own[0] != 7 || own[bytes - 1] != 7) return 1;
    total += (double)bytes;
    if (block > warm_blocks && now() - start >= seconds) break;
  }
  printf("{\"bytes\": %.0f, \"seconds\": %.6f}\n", total, now() - start);
  return 0;
}
