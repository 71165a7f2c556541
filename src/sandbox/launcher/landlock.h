// The wall of the isolation level `landlock`: rules that the kernel holds a command and its descendants to, without any
// privilege.
#pragma once

#include <cstdint>

namespace ingot::sandbox::launcher {

// The kernel's version of Landlock; 0 = it has none. TCP ports need 4, signals and abstract sockets 6.
int LandlockVersion();

struct LandlockPlan {
  const char* sandbox = nullptr;  // read and written; "" = none
  char** visible = nullptr;       // read and executed
  uint32_t visible_count = 0;
  uint32_t port = 0;  // the one TCP port to connect to
};

// Holds this process to the plan. Returns 0 or errno.
int RestrictToPlan(const LandlockPlan& plan);

}  // namespace ingot::sandbox::launcher
