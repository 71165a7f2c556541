// The number of trials of a randomized test.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace ingot {

// `few` in `make test`, and `all` in `make check`, where ingot_slow_tests (cmake/IngotTargets.cmake) sets the variable.
inline int Trials(int few, int all) { return std::getenv("INGOT_SLOW_TESTS") == nullptr ? few : all; }

// The first `few` of the cases that a test goes through, and all of them in `make check`.
template <typename T>
std::vector<T> FirstOf(int few, std::vector<T> cases) {
  cases.resize(static_cast<size_t>(Trials(few, static_cast<int>(cases.size()))));
  return cases;
}

}  // namespace ingot
