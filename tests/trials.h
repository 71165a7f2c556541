// The number of trials of a randomized test.
#pragma once

#include <cstdlib>

namespace ingot {

// `few` in `make test`, and `all` in `make check`, where ingot_slow_tests (cmake/IngotTargets.cmake) sets the variable.
inline int Trials(int few, int all) { return std::getenv("INGOT_SLOW_TESTS") == nullptr ? few : all; }

}  // namespace ingot
