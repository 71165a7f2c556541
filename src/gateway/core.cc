#include "gateway/core.h"

#include <utility>

#include "gateway/api/api_error.h"

namespace ingot::gateway {

Core::Core(GatewayOptions opts, GatewayParts services)
    : options(std::move(opts)),
      parts(std::move(services)),
      admin_key(parts.admin_key, !options.admin_key_file.empty()),
      planner(parts.tokenizer, parts.format, options.history_thinking == HistoryThinking::kKeep, parts.vocab_size),
      backends(options, parts),
      started_unix_ns(parts.clock->UnixNanos()),
      lost_tools(parts.format),
      writers({.name = "gateway writers",
               .threads = options.writer_threads,
               .max_queued = static_cast<size_t>(options.max_queued_work)},
              *parts.clock),
      workers({.name = "gateway workers",
               .threads = options.worker_threads,
               .max_queued = static_cast<size_t>(options.max_queued_work)},
              *parts.clock) {}

absl::Status ShuttingDown() { return ApiError(503, "shutting_down", "", "the gateway is shutting down"); }

}  // namespace ingot::gateway
