// torch's wheel carries Gloo inside libtorch_cpu.so and c10d's headers over it, but not Gloo's own headers, which those
// include. This folder declares what they name, as little as that is: types of which c10d keeps pointers, and the two
// functions of a context that are called (both in libtorch_cpu.so). Nothing here is ever made or copied on our side.
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
