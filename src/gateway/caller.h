// The sender of a request.
#pragma once

#include <string>

namespace ingot::gateway {

// Known by an API key. An episode id in the URL must match the key's episode: ids appear in logs, pages and records, and
// give no access.
struct Caller {
  std::string api_key;  // empty = none was sent
  std::string episode;  // from /s/{episode}/v1; empty = none
};

}  // namespace ingot::gateway
