// The waiting side of NOTE [Hands off] in control.h.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "control.h"
#include "futex.h"

namespace hvd {

namespace {

// Up to `capacity` - 1 characters of /proc/<pid>/<name>; false if it cannot be read.
bool read_proc(pid_t pid, const char* name, char* text, size_t capacity) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t bytes = read(fd, text, capacity - 1);
  close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  return bytes > 0;
}

// When the process was started; 0: not known. Tells a process from a later one with the same number.
uint32_t start_ticks_of(pid_t pid) {
  char text[1024];
  if (!read_proc(pid, "stat", text, sizeof text)) return 0;
  const char* at = std::strrchr(text, ')');  // the program's name may contain spaces and parentheses
  for (int field = 0; field < 20 && at; field++) at = std::strchr(at + 1, ' ');
  return at ? static_cast<uint32_t>(std::strtoull(at, nullptr, 10)) : 0;
}

// Each task gives up its memory before it ends, and writes nothing afterwards. A process takes up to 30 ms per GB from there
// to its end; the thread that leads it may be a zombie while others still run.
bool has_no_memory(pid_t pid) {
  char path[64], text[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR* folder = opendir(path);
  if (!folder) return false;
  int tasks = 0;
  bool is_without = true;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    tasks++;
    std::snprintf(path, sizeof path, "task/%.20s/statm", entry->d_name);
    is_without = is_without && read_proc(pid, path, text, sizeof text) && std::strncmp(text, "0 ", 2) == 0;
  }
  closedir(folder);
  return tasks > 0 && is_without;
}

}  // namespace

// NOTE [Proof of death]. The life word comes too early: a system call of another thread of the dying process may be writing
// still. An exit that the launcher has recorded is no proof either: it may be that of a wrapper (a shell, npx) around the rank.
// The kernel's word is: there is no such process, its number belongs to another one, or none of its tasks has memory.
bool Control::is_proven_dead(int rank) const {
  const auto pid = static_cast<pid_t>(page(rank)[pid_word].load(std::memory_order_acquire));
  const uint32_t start_ticks = page(rank)[start_ticks_word].load(std::memory_order_acquire);
  if (pid <= 0) return false;
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  const uint32_t now_ticks = start_ticks_of(pid);
  return (start_ticks != 0 && now_ticks != 0 && now_ticks != start_ticks) || has_no_memory(pid);
}

void Control::kill_process_of(int rank) const {
  const auto pid = static_cast<pid_t>(page(rank)[pid_word].load(std::memory_order_acquire));
  const uint32_t start_ticks = page(rank)[start_ticks_word].load(std::memory_order_acquire);
  if (pid <= 0 || pid == getpid() || start_ticks == 0) return;
  // The descriptor stays that of one process, so its identity is checked after it is open.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (start_ticks_of(pid) == start_ticks) {
    page(rank)[fenced_word].store(1, std::memory_order_release);
    if (fd >= 0)
      syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
    else
      kill(pid, SIGKILL);  // a kernel before 5.3
  }
  if (fd >= 0) ::close(fd);
}

int Control::wait_for_hands_off(const FenceLimits& limits) const {
  // Time in which this process itself did not run counts for no limit: it was stopped, and perhaps the others were too.
  constexpr int64_t max_gap_ns = 100'000'000;
  constexpr useconds_t shortest_nap_us = 50, longest_nap_us = 1000;
  int64_t waited_ns = 0, last = monotonic_ns();
  for (int rank = 0; rank < ranks_; rank++) {
    if (rank == rank_) continue;  // our threads write into the memory of others only
    // Once is enough: what it begins after that is not for us.
    for (useconds_t nap_us = shortest_nap_us; page(rank)[touching_word].load(std::memory_order_seq_cst) != 0;) {
      if (is_proven_dead(rank)) break;
      if (waited_ns >= limits.give_up_after_ns) return rank;
      if (limits.kill_after_ns > 0 && waited_ns >= limits.kill_after_ns) kill_process_of(rank);
      usleep(nap_us);
      nap_us = std::min(nap_us * 2, longest_nap_us);
      const int64_t now = monotonic_ns();
      waited_ns += std::min(now - last, max_gap_ns);
      last = now;
    }
  }
  return -1;
}

}  // namespace hvd
