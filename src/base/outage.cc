#include "base/outage.h"

#include "base/log.h"

namespace ingot::base {
namespace {

constexpr std::chrono::minutes kReminder(1);

}  // namespace

int64_t Outage::Seconds() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock_.Now() - *since_).count();
}

void Outage::Failed(const absl::Status& why) {
  const std::chrono::nanoseconds now = clock_.Now();
  const std::string cause = absl::StrCat(what_, " (", why.message(), ")");
  wait_.has_value() ? wait_->Because(cause) : (void)wait_.emplace(cause);
  if (!since_.has_value()) {
    since_ = reported_ = now;
    INGOT_LOG(warn, "{} waits: {}", what_, std::string(why.message()));
  } else if (now - reported_ >= kReminder) {
    reported_ = now;
    INGOT_LOG(warn, "{} has waited for {} s: {}", what_, Seconds(), std::string(why.message()));
  }
}

void Outage::Over() {
  if (!since_.has_value()) return;
  INGOT_LOG(info, "{} resumed after {} s", what_, Seconds());
  since_.reset();
  wait_.reset();
}

}  // namespace ingot::base
