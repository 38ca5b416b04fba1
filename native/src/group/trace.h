// When an operation entered which stage, for the timeline. A group without a trace only checks one pointer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

// A stage lasts until the next mark. The numbers are those of src/transport/trace.ts.
enum class Stage : uint8_t { posted = 0, agreed = 1, pack = 2, reduce = 3, wait = 4, unpack = 5, copy = 6, transfer = 7, over = 8, repeats = 9 };

struct Trace {
  static constexpr size_t max_marks = 48;
  struct Mark {
    Stage stage;
    int64_t at_ns;
  };
  size_t count = 0;
  Mark marks[max_marks];

  void add(Stage stage, int64_t at_ns) {
    // The same stage again simply continues.
    if (count > 0 && marks[count - 1].stage == stage) return;
    if (stage == Stage::over && count < max_marks) marks[count++] = {stage, at_ns};
    // Large operations repeat their stages; the last two places say so and mark the end.
    else if (count < max_marks - 2) marks[count++] = {stage, at_ns};
    else if (count == max_marks - 2) marks[count++] = {Stage::repeats, at_ns};
  }
};

}  // namespace hvd
