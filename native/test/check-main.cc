// Runs the registered tests one after another. The last line, "N passed, N failed", is read by
// scripts/test-native.mjs. An argument runs only the tests whose sentence contains it.

#include <cstdio>
#include <cstring>
#include <exception>

#include "check.h"

int main(int argc, char** argv) {
  int passed = 0;
  int failed = 0;
  for (const check::Test& test : check::tests()) {
    if (argc > 1 && std::strstr(test.sentence, argv[1]) == nullptr) continue;
    try {
      test.body();
      ++passed;
      std::printf("  ok   %s\n", test.sentence);
    } catch (const std::exception& error) {
      ++failed;
      std::printf("  FAIL %s\n       %s\n", test.sentence, error.what());
    }
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
