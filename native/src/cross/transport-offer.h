// How an transport of its own addon (mpi, gloo) comes about, in two steps: every member makes an offer and tells the others its
// text; with all texts each opens the transport. Each of those addons has one offer_transport().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../group/control.h"
#include "transport.h"

namespace hvd {

class TransportOffer {
 public:
  virtual ~TransportOffer() = default;
  virtual std::string text() const = 0;
  // `texts` of all members of the transport, in its order. Collective. Null: `error` says why.
  virtual std::shared_ptr<Transport> open(const std::vector<std::string>& texts, int64_t timeout_ns, std::string& error) = 0;
};

struct TransportMember {
  Control& control;
  int size;
  int index;
  std::string address;  // of this host, that the others reach; for transports with connections of their own
  int64_t timeout_ns;
  bool is_single_threaded;  // the transport's library is to be called by one thread at a time
};

// Null: `error` says why.
std::unique_ptr<TransportOffer> offer_transport(const TransportMember& member, std::string& error);
// Before the process ends: the library is told that all went well, which may take until all processes have done the same. After a
// failure nothing of it is called any more.
void close_transports(bool is_healthy);
const char* transport_name();
std::string transport_library();

}  // namespace hvd
