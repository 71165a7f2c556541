#include "base/waits.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace ingot::base {

Waits& Waits::OfProcess() {
  static Waits& waits = *new Waits();
  return waits;
}

std::vector<std::string> Waits::Longer(std::chrono::nanoseconds than, WaitKind kind) const {
  std::vector<std::string> causes;
  {
    MutexLock lock(mu_);
    const std::chrono::nanoseconds began = clock_.Now() - than;
    for (const auto& [id, going] : going_) {
      if (going.kind == kind && going.since <= began) causes.push_back(going.cause);
    }
  }
  std::sort(causes.begin(), causes.end());
  causes.erase(std::unique(causes.begin(), causes.end()), causes.end());
  return causes;
}

std::string WaitCause(std::string_view what, const absl::Status& error) {
  constexpr size_t kMaxBytes = 300;
  const std::string_view message(error.message().data(), error.message().size());
  return absl::StrCat(View(what), " (", Printable(message, {.max_bytes = kMaxBytes}), ")");
}

Wait::Wait(std::string cause, WaitKind kind, Waits& waits) : waits_(waits) {
  MutexLock lock(waits_.mu_);
  id_ = waits_.next_++;
  waits_.going_.emplace(id_, Waits::Going{waits_.clock_.Now(), kind, std::move(cause)});
}

Wait::~Wait() {
  MutexLock lock(waits_.mu_);
  waits_.going_.erase(id_);
}

void Wait::Because(std::string cause) {
  MutexLock lock(waits_.mu_);
  waits_.going_.at(id_).cause = std::move(cause);
}

}  // namespace ingot::base
