// How an engine of its own addon (mpi, gloo) comes about, in two steps: every member makes an offer and tells the others its
// text; with all texts each opens the engine. Each of those addons has one offer_engine().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../group/control.h"
#include "engine.h"

namespace hvd {

class EngineOffer {
 public:
  virtual ~EngineOffer() = default;
  virtual std::string text() const = 0;
  // `texts` of all members of the engine, in its order. Collective. Null: `error` says why.
  virtual std::shared_ptr<Engine> open(const std::vector<std::string>& texts, int64_t timeout_ns, std::string& error) = 0;
};

struct EngineMember {
  Control& control;
  int size;
  int index;
  std::string address;  // of this host, that the others reach; for engines with connections of their own
  int64_t timeout_ns;
  bool is_single_threaded;  // the engine's library is to be called by one thread at a time
};

// Null: `error` says why.
std::unique_ptr<EngineOffer> offer_engine(const EngineMember& member, std::string& error);
// Before the process ends: the library is told that all went well, which may take until all processes have done the same. After a
// failure nothing of it is called any more.
void close_engines(bool is_healthy);
const char* engine_name();
std::string engine_library();

}  // namespace hvd
