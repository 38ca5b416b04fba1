// How the cross transports with a separate addon (mpi, gloo) open, in two steps: every member makes an offer and tells
// the others its text; with the texts of all, each opens the transport. Each of those addons defines these functions once.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "../group/control.h"
#include "cross-transport.h"

namespace hvd {

class CrossTransportOffer {
 public:
  virtual ~CrossTransportOffer() = default;
  virtual std::string text() const = 0;
  // Collective. `texts` are those of all members, in order. Null: `error` says why.
  virtual std::shared_ptr<CrossTransport> open(const std::vector<std::string>& texts, int64_t timeout_ns, std::string& error) = 0;
};

struct CrossTransportMember {
  Control& control;
  int size;
  int index;
  std::string address;  // of this host, reachable for the others; for libraries that make their own connections
  int64_t timeout_ns;
  bool is_single_threaded;  // only one thread at a time may call the library
  std::shared_ptr<const std::atomic<bool>> is_cancelled;  // nobody waits for the transport any more

  // Any thread: whether opening the transport should be given up.
  bool is_over() const { return control.failed() || is_cancelled->load(std::memory_order_acquire); }
};

// Null: `error` says why.
std::unique_ptr<CrossTransportOffer> offer_cross_transport(const CrossTransportMember& member, std::string& error);
// Before the process ends: tells the library that all went well, which may take until all processes have done the same.
// After a failure the library is not called any more.
void close_cross_transports(bool is_healthy);

}  // namespace hvd
