// The options of the KV store. Bind declares each key with its meaning and bounds.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::kv {

// Which chunks an engine writes.
enum class Write { kPrompts, kAll, kNone };

struct Options {
  std::string path{};  // a directory; empty = no store
  int32_t chunk_tokens = 256;
  int64_t max_bytes = int64_t{64} << 30;
  Write write = Write::kPrompts;
  double retire_after_s = 60;
  int32_t io_threads = 2;
  int64_t max_pending_bytes = int64_t{256} << 20;

  bool on() const { return !path.empty(); }

  // Returns INVALID_ARGUMENT with the field, its value, and the allowed values.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, Options& options);

}  // namespace ingot::kv
