#include "rollout/engine/engine_options.h"

#include "absl/strings/str_cat.h"
#include "base/config.h"
#include "kv/memory_store.h"

namespace ingot::rollout {

void Bind(base::Schema& schema, EngineOptions& o) {
  for (const char* removed : {"max_stop_strings", "max_stop_bytes"}) schema.Renamed(removed, "");
  schema.Field("record_routes", &o.record_routes,
               "record the experts that computed each token, for trainer.replay_routes; uses two bytes per expert, "
               "layer, and token");
  schema.Field("record_alternatives", &o.record_alternatives,
               "record this many of the most likely tokens, with their log-probs, for each sampled token, for the run "
               "page and `ingot inspect --alternatives`; about 7 bytes per alternative; 0: none",
               base::InRange(0, 5));
  schema.Field("kv_block_tokens", &o.kv_block_tokens, "tokens per KV block", base::InRange(1, 1024));
  schema.Field("kv_cache_tokens", &o.kv_cache_tokens, "size of the KV cache in tokens", base::Positive());
  schema.Field("max_running", &o.max_running, "maximum number of requests in one batch", base::Positive());
  schema.Field("max_waiting", &o.max_waiting,
               "maximum number of queued requests, in addition to max_running; further requests are rejected",
               base::NotNegative());
  schema.Field("max_batch_tokens", &o.max_batch_tokens,
               "maximum number of tokens in one forward pass (decode and prompt chunks)", base::Positive());
  schema.Field(
      "prefill_piece_tokens", &o.prefill_piece_tokens,
      "maximum number of prompt tokens in a forward pass in which other requests sample, so that long prompts do not "
      "delay their tokens; 0: limited only by max_batch_tokens",
      base::NotNegative());
  schema.Field("context_length", &o.context_length,
               "maximum number of tokens in a request and its answer; 0: the model's context length",
               base::NotNegative());
  schema.Field("cuda_graphs", &o.cuda_graphs,
               "on a GPU, record the launches of decode steps once as CUDA graphs and run them again with one call; "
               "each new version records again. If a recording fails, steps run without graphs, and the gauge "
               "device/graph_failures is above 0. Has never run on a GPU");
  schema.Field("prefix_cache", &o.prefix_cache, "reuse the KV cache of equal prefixes");
  schema.Field("max_retained_versions", &o.max_retained_versions,
               "maximum number of versions retained in addition to the newest", base::NotNegative());
  schema.Choice("episode_version", &o.episode_version, {"follow", "pinned"},
                "version that samples an episode's calls; follow: the newest, so a new version computes the episode's "
                "context again; pinned: the version of the episode's first call, as long as engines have it");
  schema.Field("episode_versions", &o.episode_versions,
               "number of earlier versions that an engine keeps for episodes that began with them, with "
               "episode_version: pinned; each uses the memory of one copy of the weights",
               base::InRange(1, 64));
  schema.Field("max_tokens_per_turn_slice", &o.max_tokens_per_turn_slice,
               "pause a call after this many tokens and continue it on any engine, with the newest version; 0: never",
               base::NotNegative());
  schema.Field("slice_seconds", &o.slice_seconds,
               "pause a call this many seconds after its first token, or the first one after a pause; 0: never",
               base::InRange(0, 86400));
  schema.Field("slice_wait_seconds", &o.slice_wait_seconds,
               "seconds that a paused call waits for a newer version before it continues; 0: it continues at once",
               base::InRange(0, 86400));
  schema.Field("request_deadline_ms", &o.request_deadline_ms,
               "milliseconds from a request's arrival to its last token; 0: no deadline", base::NotNegative());
  schema.Field("parked_wait_s", &o.parked_wait_s,
               "seconds that a call waits for an engine that is parked (cluster.placement: shared) before it fails and "
               "is retried; this time does not count for request_deadline_ms",
               base::LeftOpen(0, 86400));
  schema.Field("max_update_bytes", &o.max_update_bytes, "maximum size of one weight update over gRPC",
               base::Positive());
  schema.Field("update_deadline_ms", &o.update_deadline_ms,
               "maximum time to swap in a verified update, in milliseconds", base::Positive());
  schema.Section("halt", o.halt);
  schema.Section("speculation", o.speculation);
  schema.Section("kv_store", o.kv_store);
  schema.Section("router", o.router);
}

namespace {

absl::Status CheckPrefill(const EngineOptions& o) {
  if (o.router.prefill_engines == 0) return absl::OkStatus();
  if (!o.kv_store.on()) {
    return absl::InvalidArgumentError(
        absl::StrCat("router.prefill_engines is ", o.router.prefill_engines,
                     ", but kv_store.path, through which engines hand over prompts, is empty: set it, for example to ",
                     base::View(kv::kMemoryPath)));
  }
  if (o.kv_store.write == kv::Write::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("router.prefill_engines is ", o.router.prefill_engines,
                     ", but kv_store.write is none, so that these engines would hand over nothing: set it to prompts"));
  }
  if (o.router.policy == RouterPolicy::kCost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("router.prefill_engines is ", o.router.prefill_engines, ", which needs router.policy: cost"));
}

absl::Status CheckStore(const EngineOptions& o) {
  if (!o.kv_store.on()) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(o.kv_store.Validate());
  if (!o.prefix_cache) {
    return absl::InvalidArgumentError(
        "kv_store.path is set, but prefix_cache is false, so that no KV is reused: set prefix_cache to true, or remove "
        "kv_store.path");
  }
  if (o.kv_store.chunk_tokens % o.kv_block_tokens != 0) {
    return absl::InvalidArgumentError(absl::StrCat("kv_store.chunk_tokens is ", o.kv_store.chunk_tokens,
                                                   ": it must be a multiple of kv_block_tokens, ", o.kv_block_tokens));
  }
  if (o.kv_store.chunk_tokens <= o.kv_cache_tokens / 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("kv_store.chunk_tokens is ", o.kv_store.chunk_tokens,
                                                 ": it must be at most half of kv_cache_tokens, ", o.kv_cache_tokens));
}

}  // namespace

absl::Status EngineOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(speculation.Validate());
  const auto at_least = [](const char* field, int64_t value, const char* other, int64_t least) {
    if (value >= least) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ": it must be at least ", other, least));
  };
  INGOT_RETURN_IF_ERROR(at_least("kv_cache_tokens", kv_cache_tokens, "kv_block_tokens, ", kv_block_tokens));
  if (kv_cache_tokens / kv_block_tokens > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_cache_tokens is ", kv_cache_tokens, ": it must be fewer than 2^31 blocks of kv_block_tokens"));
  }
  // Every running request decodes one token per step. If a step left one out, a request's speed would depend on its
  // position.
  INGOT_RETURN_IF_ERROR(at_least("max_batch_tokens", max_batch_tokens, "max_running, ", max_running));
  if (prefill_piece_tokens > max_batch_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("prefill_piece_tokens is ", prefill_piece_tokens,
                                                   ": it must be at most max_batch_tokens, ", max_batch_tokens));
  }
  if (slice_wait_seconds > 0 && max_tokens_per_turn_slice == 0 && slice_seconds == 0) {
    return absl::InvalidArgumentError(absl::StrCat("slice_wait_seconds is ", slice_wait_seconds,
                                                   ", but no call is ever paused: set ",
                                                   "max_tokens_per_turn_slice or slice_seconds, or set it to 0"));
  }
  if (slice_wait_seconds > 0 && episode_version == EpisodeVersion::kPinned) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice_wait_seconds is ", slice_wait_seconds,
                     ", but with episode_version: pinned, paused calls continue with the same version: set it to 0"));
  }
  INGOT_RETURN_IF_ERROR(CheckStore(*this));
  INGOT_RETURN_IF_ERROR(CheckPrefill(*this));
  return at_least("threads", threads, "", 1);
}

}  // namespace ingot::rollout
