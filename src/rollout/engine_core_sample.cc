// EngineCore: what follows a forward pass for one request.
#include <algorithm>

#include "rollout/engine_core.h"

namespace ingot::rollout {

// True if the request ended.
bool EngineCore::SampleOne(Sequence& sequence, const WeightVersion& version, std::span<const float> row,
                           std::vector<Emission>* out) {
  Emission emission{sequence.gate, v1::GenerateChunk(), false};
  const int32_t id = sampler_.Sample({row, &sequence.request, sequence.sampled()});
  if (id < 0 || static_cast<size_t>(id) >= row.size()) {
    emission.gate = std::move(sequence.gate);
    emission.chunk = absl::InternalError(absl::StrCat("the sampler returned token ", id, ", outside the vocabulary"));
    emission.last = true;
    out->push_back(std::move(emission));
    return true;
  }
  sequence.tokens.push_back(id);
  ++stats_.sampled_tokens;
  const int64_t now = clock_.UnixNanos();
  if (sequence.times.first_token_unix_ns() == 0) sequence.times.set_first_token_unix_ns(now);
  sequence.times.set_end_unix_ns(now);

  v1::GenerateChunk& chunk = *emission.chunk;
  chunk.add_token_ids(id);
  chunk.add_logprobs(row[id]);
  v1::VersionRun& run = *chunk.add_versions();
  run.set_version(version.version);
  run.set_count(1);
  run.set_kv_mixed(sequence.kv_mixed);
  if (sequence.request.top_logprobs() > 0) {
    *chunk.add_top_logprobs() = TopOf(row, sequence.request.top_logprobs());
  }
  const v1::FinishReason finish = FinishOf(sequence, id, &chunk);
  if (finish != v1::FINISH_UNSPECIFIED) {
    FillLast(sequence, finish, &chunk);
    emission.last = true;
    sequence.gate = nullptr;
  }
  out->push_back(std::move(emission));
  return finish != v1::FINISH_UNSPECIFIED;
}

v1::FinishReason EngineCore::FinishOf(Sequence& sequence, int32_t id, v1::GenerateChunk* chunk) {
  if (std::find(sequence.stop_ids.begin(), sequence.stop_ids.end(), id) != sequence.stop_ids.end()) {
    return v1::FINISH_STOP;
  }
  if (sequence.stops.has_value()) {
    if (const int stop = sequence.stops->Push(id); stop >= 0) {
      chunk->set_stop_string(sequence.stops->stop(stop));
      return v1::FINISH_STOP;
    }
  }
  return sequence.tokens.size() >= sequence.limit ? v1::FINISH_LENGTH : v1::FINISH_UNSPECIFIED;
}

void EngineCore::FillLast(const Sequence& sequence, v1::FinishReason finish, v1::GenerateChunk* chunk) const {
  chunk->set_finish(finish);
  chunk->set_cached_tokens(std::max(sequence.cached_tokens, 0));
  *chunk->mutable_times() = sequence.times;
}

}  // namespace ingot::rollout
