// The whole test framework of the C++ side: TEST("sentence") { … } registers a test, CHECK and CHECK_EQ end
// it with file, line and both values. check-main.cc runs them. No Node headers, so sanitizers work.

#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace check {

struct Test {
  const char* sentence;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> list;
  return list;
}

struct Registration {
  Registration(const char* sentence, void (*body)()) { tests().push_back({sentence, body}); }
};

// One-byte integers print as numbers, not as characters; so do enumerators.
template <typename T>
auto printable(const T& value) {
  if constexpr ((sizeof(T) == 1 && std::is_integral_v<T>) || std::is_enum_v<T>) return static_cast<int>(value);
  else return value;
}

[[noreturn]] inline void fail(const char* file, int line, const std::string& text) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + text);
}

template <typename A, typename B>
void equal(const A& actual, const B& expected, const char* file, int line, const char* text) {
  if (actual == expected) return;
  std::ostringstream out;
  out << text << ": got " << printable(actual) << ", expected " << printable(expected);
  fail(file, line, out.str());
}

}  // namespace check

#define CHECK_JOIN2(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN2(a, b)
#define TEST(sentence)                                                            \
  static void CHECK_JOIN(testBody, __LINE__)();                                   \
  static const check::Registration CHECK_JOIN(testAt, __LINE__){                  \
      sentence, CHECK_JOIN(testBody, __LINE__)};                                  \
  static void CHECK_JOIN(testBody, __LINE__)()
#define CHECK(condition) ((condition) ? void() : check::fail(__FILE__, __LINE__, #condition " is false"))
#define CHECK_EQ(actual, expected) check::equal(actual, expected, __FILE__, __LINE__, #actual " == " #expected)
