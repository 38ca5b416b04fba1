#include "control.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "futex.h"

namespace hvd {

namespace {
constexpr int state_word = 0, life_word = 2, exit_kind_word = 3;
constexpr uint32_t state_left = 2;
}  // namespace

Control::Control(int fd, int rank, int ranks) : bytes_(page_bytes * (1 + static_cast<size_t>(ranks))), rank_(rank), ranks_(ranks) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap of the control block");
  memory_ = static_cast<char*>(memory);
  try {
    life_ = std::thread(&Control::live, this);
  } catch (const std::system_error&) {
    munmap(memory_, bytes_);
    throw;
  }
  while (!started_.load(std::memory_order_acquire)) futex_wait_private(started_, 0, 1'000'000);
  if (robust_error_ == 0) return;
  life_.join();
  munmap(memory_, bytes_);
  throw std::system_error(robust_error_, std::generic_category(), "set_robust_list");
}

Control::~Control() {
  stop_.store(1, std::memory_order_release);
  futex_wake_private(stop_);
  life_.join();
  munmap(memory_, bytes_);
}

Control::Presence Control::presence(int rank) const {
  const std::atomic<uint32_t>* words = page(rank);
  if (words[state_word].load(std::memory_order_acquire) == state_left) return Presence::left;
  if (words[life_word].load(std::memory_order_acquire) & FUTEX_OWNER_DIED) return Presence::dead;
  return words[exit_kind_word].load(std::memory_order_acquire) != 0 ? Presence::dead : Presence::here;
}

Status Control::check(const std::vector<int>& ranks, int index, int& culprit) const {
  if (failed()) return Status::failed;
  for (int i = 0; i < static_cast<int>(ranks.size()); i++) {
    if (i == index) continue;
    const Presence seen = presence(ranks[static_cast<size_t>(i)]);
    if (seen == Presence::here) continue;
    culprit = i;
    return seen == Presence::left ? Status::peer_left : Status::peer_lost;
  }
  return Status::done;
}

void Control::live() {
  // The kernel's robust list of this thread, with our word as its only entry. It replaces the C library's list for
  // robust mutexes, of which this thread uses none.
  struct {
    robust_list_head head;
    robust_list entry;
  } list{};
  std::atomic<uint32_t>* word = &page(rank_)[life_word];
  list.head.list.next = &list.entry;
  list.entry.next = &list.head.list;
  list.head.futex_offset = reinterpret_cast<char*>(word) - reinterpret_cast<char*>(&list.entry);
  word->store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
  // Without it the others would never notice the death of this process.
  if (syscall(SYS_set_robust_list, &list.head, sizeof list.head) != 0) robust_error_ = errno;
  if (robust_error_ != 0) word->store(0, std::memory_order_release);
  started_.store(1, std::memory_order_release);
  futex_wake_private(started_);
  if (robust_error_ != 0) return;
  while (!stop_.load(std::memory_order_acquire)) futex_wait_private(stop_, 0, 0);
  list.head.list.next = &list.head.list;
  bool left = page(rank_)[state_word].load(std::memory_order_acquire) == state_left;
  word->store(left ? 0 : FUTEX_OWNER_DIED, std::memory_order_release);
}

}  // namespace hvd
