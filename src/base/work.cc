#include "base/work.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace ingot::base {

Work& Work::OfProcess() {
  static Work& work = *new Work();
  return work;
}

std::string Work::Describe() const {
  MutexLock lock(mu_);
  if (open_.empty()) return "";
  const Open& first = open_.front();
  std::string text =
      fmt::format("{} for {:.0f} s", first.what, std::chrono::duration<double>(clock_.Now() - first.since).count());
  const char* separator = ": ";
  const WorkPart* last = first.part;
  for (const Open& open : open_) {
    if (open.thread != first.thread) continue;
    last = open.part;
    if (open.part == first.part) continue;
    text += std::exchange(separator, ", ") + open.what;
  }
  if (last->total_ > 0) text += fmt::format("{}{} of {} {}", separator, last->done(), last->total_, last->unit_);
  return text;
}

std::chrono::nanoseconds Work::Lasts() const {
  MutexLock lock(mu_);
  return open_.empty() ? std::chrono::nanoseconds(0) : clock_.Now() - open_.front().since;
}

WorkPart::WorkPart(std::string what, WorkAmount amount, Work& work)
    : work_(work), done_(amount.done), total_(amount.total), unit_(amount.unit) {
  MutexLock lock(work_.mu_);
  work_.open_.push_back({this, std::this_thread::get_id(), work_.clock_.Now(), std::move(what)});
}

WorkPart::~WorkPart() {
  MutexLock lock(work_.mu_);
  std::erase_if(work_.open_, [this](const Work::Open& open) { return open.part == this; });
}

}  // namespace ingot::base
