#include "base/checksum.h"
#include "tree/forest.h"

namespace ingot::tree {
namespace {

absl::StatusOr<const v1::Segment*> FindSegment(const v1::EpisodeTree& tree, const std::string& key) {
  const auto found = tree.segments().find(base::Hex(key));
  if (found == tree.segments().end()) {
    return absl::DataLossError(absl::StrCat("segment ", base::Hex(key), " is missing"));
  }
  return &found->second;
}

// Appends what was sampled; the segment's log-probs and versions must cover its ids.
absl::Status AppendSampled(const v1::Segment& segment, FlatCall& call) {
  const int ids = segment.token_ids_size();
  if (segment.source() != v1::SOURCE_SAMPLED) return absl::DataLossError("it is not a sampled one");
  if (segment.logprobs_size() != ids) {
    return absl::DataLossError(absl::StrCat("it has ", ids, " ids and ", segment.logprobs_size(), " log-probs"));
  }
  int64_t covered = 0;
  for (const v1::VersionRun& run : segment.versions()) {
    if (run.count() <= 0 || covered + run.count() > ids) {
      return absl::DataLossError(absl::StrCat("its versions do not cover its ", ids, " ids"));
    }
    covered += run.count();
    call.versions.insert(call.versions.end(), run.count(), run.version());
    call.kv_mixed.insert(call.kv_mixed.end(), run.count(), run.kv_mixed() ? 1 : 0);
  }
  if (covered != ids) return absl::DataLossError(absl::StrCat("its versions cover ", covered, " of ", ids, " ids"));
  call.tokens.insert(call.tokens.end(), segment.token_ids().begin(), segment.token_ids().end());
  call.logprobs.insert(call.logprobs.end(), segment.logprobs().begin(), segment.logprobs().end());
  return absl::OkStatus();
}

absl::StatusOr<FlatCall> FlattenCall(const v1::EpisodeTree& tree, const v1::Call& call) {
  FlatCall flat;
  flat.call_id = call.call_id();
  flat.temperature = call.sampling().temperature();
  for (const std::string& key : call.context_keys()) {
    INGOT_ASSIGN_OR_RETURN(const v1::Segment* segment, FindSegment(tree, key));
    flat.tokens.insert(flat.tokens.end(), segment->token_ids().begin(), segment->token_ids().end());
  }
  flat.context_tokens = static_cast<int32_t>(flat.tokens.size());
  for (const std::string& key : call.sampled_keys()) {
    INGOT_ASSIGN_OR_RETURN(const v1::Segment* segment, FindSegment(tree, key));
    INGOT_RETURN_IF_ERROR(base::Annotate(AppendSampled(*segment, flat), absl::StrCat("segment ", base::Hex(key))));
  }
  return flat;
}

}  // namespace

absl::StatusOr<std::vector<FlatCall>> FlattenCalls(const v1::EpisodeTree& tree, int32_t episode, int32_t group) {
  std::vector<FlatCall> calls;
  calls.reserve(tree.calls_size());
  for (const v1::Call& call : tree.calls()) {
    auto flat = FlattenCall(tree, call);
    if (!flat.ok()) return base::Annotate(flat.status(), absl::StrCat("call ", call.call_id()));
    flat->episode = episode;
    flat->group = group;
    calls.push_back(*std::move(flat));
  }
  return calls;
}

}  // namespace ingot::tree
