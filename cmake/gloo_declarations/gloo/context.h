// torch's wheel carries Gloo inside libtorch_cpu.so and c10d's headers, but not Gloo's own headers, which c10d's include.
// This folder declares the few names that they use: types that c10d holds by pointer, and two functions of a context,
// both defined in libtorch_cpu.so. Ingot neither makes nor copies an object of these types.
#pragma once

#include <chrono>

#include "gloo/transport/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  void closeConnections();  // whatever waits on them fails
};

}  // namespace gloo
