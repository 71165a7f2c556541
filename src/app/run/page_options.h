// Options of a run's page. Free of sockets, so that a configuration schema can bind to these fields.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::app {

struct PageOptions {
  bool enabled = true;
  std::string host = "127.0.0.1";  // TLS and allow_plaintext are those of http
  int32_t port = 0;                // 0 = a free one
};

}  // namespace ingot::app
