#include "app/run/thread_waits.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace ingot::app {

void BoundSpinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  char program[PATH_MAX] = {};
  if (readlink("/proc/self/exe", program, sizeof(program) - 1) <= 0) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv(program, argv);
}

}  // namespace ingot::app
