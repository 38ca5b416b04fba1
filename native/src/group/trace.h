// When an operation entered which stage, for the timeline. A group without a trace looks at one pointer and does no more.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

// What a mark begins lasts until the next one. The numbers are those of src/transport/trace.ts.
enum class Stage : uint8_t { posted = 0, agreed = 1, pack = 2, reduce = 3, wait = 4, unpack = 5, copy = 6, transfer = 7, over = 8, repeats = 9 };

struct Trace {
  static constexpr size_t most = 48;
  struct Mark {
    Stage stage;
    int64_t at_ns;
  };
  size_t count = 0;
  Mark marks[most];

  void add(Stage stage, int64_t at_ns) {
    // A stage entered again goes on.
    if (count > 0 && marks[count - 1].stage == stage) return;
    if (stage == Stage::over && count < most) marks[count++] = {stage, at_ns};
    // Large operations go through their stages again and again; the last places are for that, and for the end.
    else if (count < most - 2) marks[count++] = {stage, at_ns};
    else if (count == most - 2) marks[count++] = {Stage::repeats, at_ns};
  }
};

}  // namespace hvd
