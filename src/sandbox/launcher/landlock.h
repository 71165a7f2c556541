// Implements isolation level `landlock` with kernel rules that restrict a command and its descendants. The rules
// require no privileges.
#pragma once

#include <cstdint>

namespace ingot::sandbox::launcher {

// Returns the kernel's Landlock version; 0 = not supported. TCP port rules require version 4. Rules for signals and
// abstract sockets require version 6.
int LandlockVersion();

struct LandlockPlan {
  const char* sandbox = nullptr;  // read and write access; "" = none
  char** visible = nullptr;       // read and execute access
  uint32_t visible_count = 0;
  uint32_t port = 0;  // the only TCP port to which connections are allowed
};

// Restricts this process according to the plan. Returns 0 or errno.
int RestrictToPlan(const LandlockPlan& plan);

}  // namespace ingot::sandbox::launcher
