#include "view/json/live_json.h"

#include <algorithm>

#include "view/safe_text.h"

namespace ingot::view {
namespace {

using base::json::array;
using base::json::object;

object EngineJson(const std::string& name, const absl::StatusOr<v1::EngineStatusResponse>& status) {
  object fields{{"name", name}};
  if (!status.ok()) {
    fields["error"] = SafeText(std::string(status.status().message()));
    return fields;
  }
  const double alive = std::max(status->alive_seconds(), 1e-9);
  fields["version"] = status->version();
  fields["running"] = status->running();
  fields["waiting"] = status->waiting();
  fields["kv_used"] = status->kv_blocks_used();
  fields["kv_total"] = status->kv_blocks_total();
  fields["sampled_tokens"] = status->sampled_tokens();
  fields["prompt_tokens"] = status->prompt_tokens();
  fields["cached_prompt_tokens"] = status->cached_prompt_tokens();
  fields["busy_seconds"] = status->busy_seconds();
  fields["alive_seconds"] = status->alive_seconds();
  if (status->has_prefill()) {
    const v1::PrefillProgress& prefill = status->prefill();
    fields["prefill"] = object{{"requests", prefill.requests()},
                               {"tokens", prefill.tokens()},
                               {"prefilled", prefill.prefilled()},
                               {"oldest_seconds", prefill.oldest_seconds()}};
  }
  fields["idle_share"] = std::clamp(1 - status->busy_seconds() / alive, 0.0, 1.0);
  return fields;
}

object UncalledJson(const v1::GatewayStatusResponse& gateways) {
  array episodes;
  for (const v1::UncalledEpisode& one : gateways.uncalled()) {
    episodes.push_back(object{{"id", SafeText(one.episode_id())},
                              {"age_s", static_cast<double>(one.age_ms()) * 1e-3},
                              {"kind", one.purpose() == v1::PURPOSE_EVAL ? "eval" : "train"},
                              {"group", one.ref().group_id()},
                              {"sample", one.ref().sample_index()},
                              {"task", SafeText(one.task_id())}});
  }
  return {{"count", gateways.uncalled_episodes()},
          {"oldest_s", static_cast<double>(gateways.oldest_uncalled_ms()) * 1e-3},
          {"episodes", std::move(episodes)}};
}

}  // namespace

void AddLive(const LiveState& live, const RunFacts& facts, object& run) {
  if (!live.trainer.empty()) run["trainer"] = SafeText(live.trainer);
  array engines;
  for (const auto& [name, status] : live.engines) engines.push_back(EngineJson(name, status));
  if (!engines.empty()) run["engines"] = std::move(engines);
  if (live.gateways.uncalled_episodes() > 0) run["uncalled"] = UncalledJson(live.gateways);
  if (!live.scheduler.has_value()) return;
  const absl::StatusOr<v1::SchedulerStatusResponse>& scheduler = *live.scheduler;
  if (!scheduler.ok()) {
    run["scheduler_error"] = SafeText(std::string(scheduler.status().message()));
    return;
  }
  const v1::FeedStats& feed = scheduler->stats();
  run["scheduler"] = object{{"next_step", scheduler->next_step()},
                            {"finished", scheduler->finished()},
                            {"running_episodes", feed.running_episodes()},
                            {"finished_episodes", feed.finished_episodes()},
                            {"admitted_unreleased", feed.admitted_unreleased()},
                            {"grading", feed.grading()}};
  if (const auto places = static_cast<double>(facts.concurrency); places > 0) {
    run["agents_idle_share"] = std::clamp(1 - static_cast<double>(feed.running_episodes()) / places, 0.0, 1.0);
  }
}

}  // namespace ingot::view
