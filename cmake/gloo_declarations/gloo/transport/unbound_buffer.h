// See gloo/context.h.
#pragma once

namespace gloo::transport {

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};

}  // namespace gloo::transport
