#include "app/node_clocks.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/log.h"

namespace ingot::app {
namespace {

bool IsAhead(const NodePlace& node, const std::string& own, int64_t now_unix_ns) {
  return node.name != own && std::chrono::nanoseconds(node.told_unix_ns - now_unix_ns) > kClockGap;
}

}  // namespace

std::vector<std::string> DescribeClocksAhead(const std::vector<NodePlace>& nodes, const std::string& own,
                                             int64_t now_unix_ns) {
  std::vector<std::string> lines;
  for (const NodePlace& node : nodes) {
    if (!IsAhead(node, own, now_unix_ns)) continue;
    lines.push_back(fmt::format(
        "the clock of {} (node {}) is {:.1f} s or more behind that of {} (node {}): set both, by "
        "NTP for instance; deadlines and recorded times are wrong by as much",
        MachineName(), own, static_cast<double>(node.told_unix_ns - now_unix_ns) * 1e-9, node.machine, node.name));
  }
  return lines;
}

NodeClocks::NodeClocks(RunRegistry& registry, Options options, const base::Clock& clock)
    : registry_(registry), options_(std::move(options)), clock_(clock), thread_([this] { Run(); }) {}

NodeClocks::~NodeClocks() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

absl::Status NodeClocks::Join(std::chrono::milliseconds patience) {
  const base::Clock& real = base::Clock::Real();
  const std::chrono::nanoseconds late = real.Now() + patience;
  base::MutexLock lock(mu_);
  while (!all_told_ && early_.empty() && real.WaitUntil(changed_, mu_, late)) {
  }
  joined_ = true;
  return early_.empty() ? absl::OkStatus() : absl::FailedPreconditionError(absl::StrJoin(early_, "; "));
}

void NodeClocks::Run() {
  const base::Clock& real = base::Clock::Real();
  while (true) {
    Look();
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds next = real.Now() + options_.poll;
    while (!stopping_ && real.WaitUntil(changed_, mu_, next)) {
    }
    if (stopping_) return;
  }
}

void NodeClocks::Look() {
  const absl::StatusOr<std::vector<NodePlace>> nodes = registry_.Nodes();
  if (!nodes.ok()) return;  // the registry's own threads tell that it is silent
  const int64_t now = clock_.UnixNanos();
  bool newcomers = false, all_told = true;
  std::vector<std::string> lines;
  for (const NodePlace& node : *nodes) {
    if (node.name == options_.own) continue;
    newcomers = std::exchange(seen_[node.name], node.token) != node.token || newcomers;
    all_told = first_.emplace(node.name, node.told_unix_ns).first->second != node.told_unix_ns && all_told;
    for (const std::string& line : DescribeClocksAhead({node}, options_.own, now)) {
      if (std::exchange(found_[node.name], node.token) != node.token) lines.push_back(line);
    }
  }
  if (newcomers) options_.retell();
  {
    base::MutexLock lock(mu_);
    all_told_ = all_told;
    if (!joined_) early_.insert(early_.end(), lines.begin(), lines.end());
    if (!joined_) lines.clear();
    changed_.SignalAll();
  }
  for (const std::string& line : lines) options_.on_gap(line);
}

}  // namespace ingot::app
