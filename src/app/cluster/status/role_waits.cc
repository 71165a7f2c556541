#include "app/cluster/status/role_waits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {

std::string ReportedWaits::All() const {
  return absl::StrCat(faults, faults.empty() || work.empty() ? "" : ", ", work);
}

std::string PrintWaits(const ReportedWaits& waits) {
  return absl::StrCat(base::Printable(waits.faults), "\n", base::Printable(waits.work), "\n",
                      base::Printable(waits.computes), "\n");
}

ReportedWaits ParseWaits(std::string_view text) {
  ReportedWaits waits;
  for (std::string* const field : {&waits.faults, &waits.work, &waits.computes}) {
    const size_t end = std::min(text.find('\n'), text.size());
    *field = std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return waits;
}

RoleWaits::~RoleWaits() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void RoleWaits::Start() {
  thread_ = std::thread([this] {
    while (true) {
      Poll();
      base::MutexLock lock(mu_);
      const std::chrono::nanoseconds next = clock_.Now() + kPause;
      while (!stopping_ && clock_.WaitUntil(stopped_, mu_, next)) {
      }
      if (stopping_) return;
    }
  });
}

void RoleWaits::Follow(std::function<std::vector<std::string>()> calls,
                       std::function<void(const std::string&)> report) {
  base::MutexLock lock(following_mu_);
  calls_ = std::move(calls);
  report_ = std::move(report);
}

void RoleWaits::Poll() {
  base::MutexLock following(following_mu_);
  std::vector<std::string> faults = waits_.Longer(kTimeout, base::WaitKind::kFault);
  if (calls_) {
    for (std::string& call : calls_()) faults.push_back(std::move(call));
  }
  const ReportedWaits now{absl::StrJoin(faults, ", "),
                          absl::StrJoin(waits_.Longer(kTimeout, base::WaitKind::kWork), ", ")};
  {
    base::MutexLock lock(mu_);
    if (now == reported_) return;
    reported_ = now;
  }
  INGOT_LOG(info, "waits for {}", now.empty() ? "nothing now" : now.All());
  if (report_) report_(now.All());
}

ReportedWaits RoleWaits::Reported() const {
  base::MutexLock lock(mu_);
  return reported_;
}

}  // namespace ingot::app
