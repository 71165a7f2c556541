#include "gateway/counters.h"

namespace ingot::gateway {

void Counters::CountCall(const absl::Status& status, bool was_aborted) {
  ++calls;
  if (status.ok()) {
    ++completed;
  } else if (was_aborted) {
    ++aborted;
  } else if (absl::IsResourceExhausted(status)) {
    ++rejected;
  } else {
    ++failed;
  }
}

void Counters::AddConcessions(text::Concessions made) {
  for (size_t i = 0; i < concessions.size(); ++i) {
    if (made.Has(static_cast<text::Concession>(i))) ++concessions[i];
  }
}

}  // namespace ingot::gateway
