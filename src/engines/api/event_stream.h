// Splits a response into server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). Keeps
// only the events' data. Not thread safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::engines {

class EventStream {
 public:
  static constexpr size_t kMostBytes = 4 << 20;  // size limit for one event

  // Calls `on_event` with the data of each event that `bytes` completes. Stops at the first error and returns it.
  // Returns DATA_LOSS if an event is larger than kMostBytes.
  absl::Status Push(std::string_view bytes, const std::function<absl::Status(std::string_view data)>& on_event);

 private:
  absl::Status OnLine(std::string_view line, const std::function<absl::Status(std::string_view data)>& on_event);

  std::string line_;  // the incomplete last line
  std::string data_;  // data of the current event
};

}  // namespace ingot::engines
