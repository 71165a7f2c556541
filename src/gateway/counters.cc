#include "gateway/counters.h"

namespace ingot::gateway {

void Counters::CountCall(const absl::Status& status, bool was_aborted) {
  ++calls;
  if (status.ok()) {
    ++completed;
  } else if (was_aborted) {
    ++aborted;
  } else if (absl::IsResourceExhausted(status)) {
    ++refused;
  } else {
    ++failed;
  }
}

}  // namespace ingot::gateway
