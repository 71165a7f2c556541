#include "rollout/routing/status_sum.h"

#include <algorithm>

namespace ingot::rollout {
namespace {

// Returns the time from the update's arrival to its first token.
double UntilFirstToken(const v1::SwapTimes& times) {
  return times.fetch_ms() + times.apply_ms() + times.wait_ms() + times.pause_ms() + times.first_token_ms();
}

// Returns true if `a` is from an older version than `b`, or from the same version but slower.
bool IsLater(const v1::SwapTimes& a, const v1::SwapTimes& b) {
  return a.version() != b.version() ? a.version() < b.version() : UntilFirstToken(a) > UntilFirstToken(b);
}

void AddPrefill(const v1::PrefillProgress& one, v1::PrefillProgress& sum) {
  sum.set_requests(sum.requests() + one.requests());
  sum.set_tokens(sum.tokens() + one.tokens());
  sum.set_prefilled(sum.prefilled() + one.prefilled());
  sum.set_oldest_seconds(std::max(sum.oldest_seconds(), one.oldest_seconds()));
}

void AddDrafters(const v1::EngineStatusResponse& one, v1::EngineStatusResponse& sum) {
  for (const v1::DrafterStatus& drafter : one.drafters()) {
    auto& known = *sum.mutable_drafters();
    auto at = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.name() == drafter.name(); });
    v1::DrafterStatus& total = at == known.end() ? *known.Add() : *at;
    total.set_name(drafter.name());
    total.set_drafted(total.drafted() + drafter.drafted());
    total.set_accepted(total.accepted() + drafter.accepted());
    total.set_proposed(total.proposed() + drafter.proposed());
    total.set_dropped(total.dropped() + drafter.dropped());
    total.set_failures(total.failures() + drafter.failures());
  }
}

void AddStore(const v1::KvStoreStatus& one, v1::KvStoreStatus& sum) {
  sum.set_fetched_tokens(sum.fetched_tokens() + one.fetched_tokens());
  sum.set_fetch_seconds(sum.fetch_seconds() + one.fetch_seconds());
  sum.set_fetch_abandoned(sum.fetch_abandoned() + one.fetch_abandoned());
  sum.set_put_chunks(sum.put_chunks() + one.put_chunks());
  sum.set_put_dropped(sum.put_dropped() + one.put_dropped());
  sum.set_corrupt(sum.corrupt() + one.corrupt());
  sum.set_bytes(std::max(sum.bytes(), one.bytes()));  // they share it
  sum.set_retired_bytes(sum.retired_bytes() + one.retired_bytes());
  sum.set_evicted_bytes(sum.evicted_bytes() + one.evicted_bytes());
}

}  // namespace

void AddStatus(const v1::EngineStatusResponse& one, v1::EngineStatusResponse& sum) {
  if (one.version() < sum.version()) {
    sum.set_version(one.version());
    *sum.mutable_held_versions() = one.held_versions();
    *sum.mutable_held_checksums() = one.held_checksums();
    *sum.mutable_held_loaded_unix_ns() = one.held_loaded_unix_ns();
  }
  if (!one.has_first_token()) {
    sum.clear_first_token();
  } else if (sum.has_first_token() && IsLater(one.first_token(), sum.first_token())) {
    *sum.mutable_first_token() = one.first_token();
  }
  sum.set_running(sum.running() + one.running());
  sum.set_waiting(sum.waiting() + one.waiting());
  sum.set_kv_blocks_total(sum.kv_blocks_total() + one.kv_blocks_total());
  sum.set_kv_blocks_used(sum.kv_blocks_used() + one.kv_blocks_used());
  sum.set_sampled_tokens(sum.sampled_tokens() + one.sampled_tokens());
  sum.set_prompt_tokens(sum.prompt_tokens() + one.prompt_tokens());
  sum.set_cached_prompt_tokens(sum.cached_prompt_tokens() + one.cached_prompt_tokens());
  sum.set_busy_seconds(sum.busy_seconds() + one.busy_seconds());
  sum.set_alive_seconds(sum.alive_seconds() + one.alive_seconds());
  sum.set_sampling_passes(sum.sampling_passes() + one.sampling_passes());
  sum.set_paused_requests(sum.paused_requests() + one.paused_requests());
  sum.set_prefill_requests(sum.prefill_requests() + one.prefill_requests());
  AddDrafters(one, sum);
  if (one.has_kv_store()) AddStore(one.kv_store(), *sum.mutable_kv_store());
  sum.mutable_servers()->MergeFrom(one.servers());
  if (one.has_prefill()) AddPrefill(one.prefill(), *sum.mutable_prefill());
}

}  // namespace ingot::rollout
