#include "app/training/engine_metrics.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace ingot::app {

namespace {

struct ServerTime {
  const char* name;
  double (v1::ServerStatus::*value)() const;
};
constexpr ServerTime kServerTimes[] = {
    {"engine/write_ms", &v1::ServerStatus::write_ms},
    {"engine/pause_ms", &v1::ServerStatus::pause_ms},
    {"engine/load_ms", &v1::ServerStatus::load_ms},
    {"engine/verify_ms", &v1::ServerStatus::verify_ms},
    {"engine/verify_diff_mean", &v1::ServerStatus::verify_diff_mean},
    {"engine/verify_diff_max", &v1::ServerStatus::verify_diff_max},
};

struct ServerCount {
  const char* name;
  int64_t (v1::ServerStatus::*value)() const;

  int64_t Sum(const v1::EngineStatusResponse& status) const {
    int64_t sum = 0;
    for (const v1::ServerStatus& server : status.servers()) sum += (server.*value)();
    return sum;
  }
};
constexpr ServerCount kServerCounts[] = {
    {"engine/verified", &v1::ServerStatus::verified},
    {"engine/refused", &v1::ServerStatus::refused},
    {"engine/restarts", &v1::ServerStatus::restarts},
    {"engine/foreign_labels", &v1::ServerStatus::foreign_labels},
    {"engine/corrected_answers", &v1::ServerStatus::corrected_answers},
    {"engine/cut_tokens", &v1::ServerStatus::cut_tokens},
};

struct StoreCount {
  const char* name;
  int64_t (v1::KvStoreStatus::*value)() const;
};
constexpr StoreCount kStoreCounts[] = {
    {"kv_store/fetched_tokens", &v1::KvStoreStatus::fetched_tokens},
    {"kv_store/fetch_abandoned", &v1::KvStoreStatus::fetch_abandoned},
    {"kv_store/put_chunks", &v1::KvStoreStatus::put_chunks},
    {"kv_store/put_dropped", &v1::KvStoreStatus::put_dropped},
    {"kv_store/corrupt", &v1::KvStoreStatus::corrupt},
    {"kv_store/retired_bytes", &v1::KvStoreStatus::retired_bytes},
    {"kv_store/evicted_bytes", &v1::KvStoreStatus::evicted_bytes},
};

// Drafting is off if at most one in so many proposed ids is verified. While it does not pay, the engine still verifies a
// few ids in every 64th step, to measure their cost.
constexpr int64_t kOffShare = 32;

// Returns the drafter's counts since `before`. They decrease if an engine leaves, which counts as 0.
v1::DrafterStatus NewCounts(const v1::DrafterStatus& drafter, const v1::EngineStatusResponse& before) {
  v1::DrafterStatus old;
  for (const v1::DrafterStatus& b : before.drafters()) {
    if (b.name() == drafter.name()) old = b;
  }
  const auto since = [](int64_t now, int64_t then) { return std::max<int64_t>(now - then, 0); };
  v1::DrafterStatus counts;
  counts.set_drafted(since(drafter.drafted(), old.drafted()));
  counts.set_accepted(since(drafter.accepted(), old.accepted()));
  counts.set_proposed(since(drafter.proposed(), old.proposed()));
  counts.set_dropped(since(drafter.dropped(), old.dropped()));
  counts.set_failures(since(drafter.failures(), old.failures()));
  return counts;
}

}  // namespace

EngineMetrics::EngineMetrics(rollout::Client& engine) : engine_(engine) {
  if (const auto status = engine.Status(); status.ok()) at_start_ = *status;
}

void EngineMetrics::Add(int64_t step, int64_t version, std::map<std::string, double>& metrics) {
  newest_ = version;
  if (!reported_ && step > 0) before_ = at_start_;  // earlier rows include what the engines sampled before
  reported_ = true;
  const absl::StatusOr<v1::EngineStatusResponse> status = engine_.Status();
  if (!status.ok()) {
    INGOT_LOG(warn, "the engine's status is not known: {}", status.status().ToString());
    return;
  }
  const double alive = status->alive_seconds() - before_.alive_seconds();
  const auto prompt = static_cast<double>(status->prompt_tokens() - before_.prompt_tokens());
  if (prompt > 0) {
    metrics["rollout/prefix_cache_hit_ratio"] =
        static_cast<double>(status->cached_prompt_tokens() - before_.cached_prompt_tokens()) / prompt;
  }
  if (alive > 0) {
    // The count decreases if an engine leaves.
    const int64_t sampled = std::max<int64_t>(status->sampled_tokens() - before_.sampled_tokens(), 0);
    metrics["rollout/sampled_tokens"] = static_cast<double>(sampled);
    metrics["rollout/alive_seconds"] = alive;
    metrics["rollout/paused_requests"] =
        static_cast<double>(std::max<int64_t>(status->paused_requests() - before_.paused_requests(), 0));
    metrics["rollout/idle_ratio"] = std::clamp(1 - (status->busy_seconds() - before_.busy_seconds()) / alive, 0.0, 1.0);
    metrics["rollout/sampled_tokens_per_second"] = static_cast<double>(sampled) / alive;
  }
  AddSpeculation(*status, metrics);
  AddStore(*status, metrics);
  AddServers(*status, metrics);
  AddFirstToken(*status, metrics);
  before_ = *status;
}

void EngineMetrics::AddSpeculation(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics) {
  int64_t drafted = 0, accepted = 0, proposed = 0, failures = 0;
  for (const v1::DrafterStatus& drafter : status.drafters()) {
    const v1::DrafterStatus now = NewCounts(drafter, before_);
    if (drafter.name() == "shadow") {
      AddShadow(now.drafted(), now.accepted(), status, metrics);
      continue;
    }
    drafted += now.drafted();
    accepted += now.accepted();
    proposed += now.proposed();
    failures += now.failures();
    if (now.dropped() > 0) {
      metrics[absl::StrCat("rollout/dropped_tokens/", drafter.name())] = static_cast<double>(now.dropped());
    }
    if (now.drafted() == 0) continue;
    metrics[absl::StrCat("rollout/drafted_tokens/", drafter.name())] = static_cast<double>(now.drafted());
    metrics[absl::StrCat("rollout/accepted_tokens/", drafter.name())] = static_cast<double>(now.accepted());
    if (drafter.name() == "mtp") {
      metrics["draft/accept_rate"] = static_cast<double>(now.accepted()) / static_cast<double>(now.drafted());
    }
  }
  if (proposed > 0 || failures > 0) {
    metrics["draft/disabled"] = drafted <= proposed / kOffShare || failures > 0 ? 1 : 0;
  }
  const int64_t passes = status.sampling_passes() - before_.sampling_passes();
  const int64_t sampled = status.sampled_tokens() - before_.sampled_tokens();
  if (passes > 0 && sampled >= passes) {
    metrics["rollout/tokens_per_pass"] = static_cast<double>(sampled) / static_cast<double>(passes);
  }
  if (drafted == 0) return;
  metrics["rollout/drafted_tokens"] = static_cast<double>(drafted);
  metrics["rollout/draft_acceptance"] = static_cast<double>(accepted) / static_cast<double>(drafted);
}

void EngineMetrics::AddShadow(int64_t drafted, int64_t accepted, const v1::EngineStatusResponse& status,
                              std::map<std::string, double>& metrics) const {
  const int64_t sampled = status.sampled_tokens() - before_.sampled_tokens();
  if (drafted <= 0 || sampled <= accepted) return;
  metrics["draft/shadow_accept_rate"] = static_cast<double>(accepted) / static_cast<double>(drafted);
  metrics["draft/shadow_tokens_per_pass"] = static_cast<double>(sampled) / static_cast<double>(sampled - accepted);
}

void EngineMetrics::AddStore(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics) {
  if (!status.has_kv_store()) return;
  const v1::KvStoreStatus &now = status.kv_store(), &before = before_.kv_store();
  for (const StoreCount& count : kStoreCounts) {
    // The counts decrease if an engine leaves.
    metrics[count.name] = static_cast<double>(std::max<int64_t>((now.*count.value)() - (before.*count.value)(), 0));
  }
  metrics["kv_store/fetch_seconds"] = std::max(now.fetch_seconds() - before.fetch_seconds(), 0.0);
  metrics["kv_store/bytes"] = static_cast<double>(now.bytes());
}

void EngineMetrics::AddServers(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics) {
  if (status.servers().empty()) return;
  for (const ServerTime& time : kServerTimes) {
    double most = 0;
    for (const v1::ServerStatus& server : status.servers()) most = std::max(most, (server.*time.value)());
    metrics[time.name] = most;
  }
  for (const ServerCount& count : kServerCounts) {
    // The counts decrease if an engine leaves.
    metrics[count.name] = static_cast<double>(std::max<int64_t>(count.Sum(status) - count.Sum(before_), 0));
  }
}

void EngineMetrics::AddFirstToken(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics) {
  double until_sent = 0;
  for (const char* part : {"snapshot", "save", "encode", "send"}) {
    const auto found = metrics.find(absl::StrCat("perf/update_weights_", part, "_ms"));
    if (found == metrics.end()) return;  // a skipped step, or one that could not be published
    until_sent += found->second;
  }
  until_sent_ms_[newest_] = until_sent;
  const v1::SwapTimes& times = status.first_token();
  const auto sent = until_sent_ms_.find(times.version());
  if (!status.has_first_token() || sent == until_sent_ms_.end()) return;
  metrics["perf/first_token_version"] = static_cast<double>(times.version());
  metrics["perf/first_token_ms"] =
      sent->second + times.fetch_ms() + times.apply_ms() + times.wait_ms() + times.pause_ms() + times.first_token_ms();
  metrics["perf/first_token_decode_ms"] = times.first_token_ms();
  metrics["perf/first_token_step_ms"] = times.step_ms();
  until_sent_ms_.erase(until_sent_ms_.begin(), std::next(sent));
}

}  // namespace ingot::app
