#include "app/cluster/node_clocks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/waits.h"

namespace ingot::app {
namespace {

bool IsAhead(const NodePlace& node, const std::string& own, int64_t now_unix_ns) {
  return node.name != own && std::chrono::nanoseconds(node.reported_unix_ns - now_unix_ns) > kClockGap;
}

}  // namespace

std::vector<std::string> DescribeClocksAhead(const std::vector<NodePlace>& nodes, const std::string& own,
                                             int64_t now_unix_ns) {
  std::vector<std::string> lines;
  for (const NodePlace& node : nodes) {
    if (!IsAhead(node, own, now_unix_ns)) continue;
    lines.push_back(fmt::format(
        "the clock of {} (node {}) is at least {:.1f} s behind the clock of {} (node {}): synchronize both clocks, for "
        "example by NTP; until then, deadlines and recorded times are off by that much",
        MachineName(), own, static_cast<double>(node.reported_unix_ns - now_unix_ns) * 1e-9, node.machine, node.name));
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

bool NodeClocks::Decided() const {
  if (early_.empty()) return all_reported_;
  return std::any_of(early_.begin(), early_.end(), [](const auto& gap) { return gap.second.lives; });
}

absl::Status NodeClocks::Join(std::chrono::milliseconds timeout, std::chrono::milliseconds lease) {
  const base::Clock& real = base::Clock::Real();
  const std::chrono::nanoseconds start = real.Now();
  std::optional<base::Wait> wait;
  base::MutexLock lock(mu_);
  while (!Decided()) {
    const std::chrono::nanoseconds late = start + (early_.empty() ? timeout : std::max(timeout, lease));
    if (real.Now() >= late) break;
    if (early_.empty()) wait.reset();
    if (!early_.empty() && !wait.has_value()) wait.emplace("the lease of an agent with another clock, if it died");
    real.WaitUntil(changed_, mu_, late);
  }
  joined_ = true;
  if (early_.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const auto& [node, gap] : early_) lines.push_back(gap.line);
  return absl::FailedPreconditionError(absl::StrJoin(lines, "; "));
}

void NodeClocks::Run() {
  const base::Clock& real = base::Clock::Real();
  while (true) {
    Poll();
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds next = real.Now() + options_.poll;
    while (!stopping_ && real.WaitUntil(changed_, mu_, next)) {
    }
    if (stopping_) return;
  }
}

void NodeClocks::Poll() {
  const absl::StatusOr<std::vector<NodePlace>> nodes = registry_.Nodes();
  if (!nodes.ok()) return;  // the registry's own threads report that it is not answering
  const int64_t now = clock_.UnixNanos();
  bool newcomers = false, all_reported = true;
  std::vector<std::string> lines;
  for (const NodePlace& node : *nodes) {
    if (node.name == options_.own) continue;
    newcomers = std::exchange(seen_[node.name], node.token) != node.token || newcomers;
    all_reported =
        first_.emplace(node.name, node.reported_unix_ns).first->second != node.reported_unix_ns && all_reported;
    for (const std::string& line : DescribeClocksAhead({node}, options_.own, now)) {
      if (std::exchange(found_[node.name], node.token) != node.token) lines.push_back(line);
    }
  }
  if (newcomers) options_.report_again();
  {
    base::MutexLock lock(mu_);
    all_reported_ = all_reported;
    if (!joined_) Weigh(*nodes, now);
    if (!joined_) lines.clear();
    changed_.SignalAll();
  }
  for (const std::string& line : lines) options_.on_gap(line);
}

// An agent that has written its time since this node began polling is alive, so its earlier entries also count.
void NodeClocks::Weigh(const std::vector<NodePlace>& nodes, int64_t now_unix_ns) {
  std::map<std::string, Gap> gaps;
  for (const NodePlace& node : nodes) {
    if (node.name == options_.own) continue;
    const auto earlier = early_.find(node.name);
    const bool known = earlier != early_.end() && earlier->second.token == node.token;
    const std::vector<std::string> lines = DescribeClocksAhead({node}, options_.own, now_unix_ns);
    if (!known && lines.empty()) continue;
    gaps[node.name] = {node.token, first_.at(node.name) != node.reported_unix_ns,
                       known ? earlier->second.line : lines.front()};
  }
  early_ = std::move(gaps);
}

}  // namespace ingot::app
