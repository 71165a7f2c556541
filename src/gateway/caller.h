// Identifies the sender of a request.
#pragma once

#include <string>

namespace ingot::gateway {

// Callers are identified by their API key. An episode id in the URL must match the key's episode. Ids do not grant
// access, because they appear in logs, pages, and records.
struct Caller {
  std::string api_key;  // empty = no key was sent
  std::string episode;  // episode in /s/{episode}/v1; empty = none
};

}  // namespace ingot::gateway
