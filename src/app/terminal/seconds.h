// Converts clock times to seconds for records and messages.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace ingot::app {

inline double SecondsSince(const base::Clock& clock, std::chrono::nanoseconds start) {
  return std::chrono::duration<double>(clock.Now() - start).count();
}

}  // namespace ingot::app
