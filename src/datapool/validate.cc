#include "datapool/validate.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/placeholders.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "datapool/keys.h"
#include "tree/alternatives.h"
#include "tree/episode_return.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::datapool {
namespace {

constexpr size_t kMaxIdBytes = 256;

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(base::CutMessage(what)); }

// Returns the name of a string field in the message or its submessages that is not UTF-8, or an empty string if there
// is none. Skips maps, because reflection would first copy each into a list. ValidateKeysAreUtf8 checks their keys.
std::string FieldWithoutUtf8(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_map()) continue;
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && field->type() != FieldDescriptor::TYPE_STRING) continue;
    for (int i = 0; i < size; ++i) {
      if (is_message) {
        std::string below = FieldWithoutUtf8(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                                  : reflection.GetMessage(message, field));
        if (!below.empty()) return absl::StrCat(field->name(), ".", below);
        continue;
      }
      std::string unused;
      const std::string& text = field->is_repeated() ? reflection.GetRepeatedStringReference(message, field, i, &unused)
                                                     : reflection.GetStringReference(message, field, &unused);
      if (!base::IsValidUtf8(text)) return field->name();
    }
  }
  return "";
}

// protobuf writes a string with other bytes but then cannot parse the record.
absl::Status ValidateStrings(const google::protobuf::Message& message) {
  const std::string field = FieldWithoutUtf8(message);
  if (field.empty()) return absl::OkStatus();
  return Invalid(absl::StrCat(field, " is not UTF-8, so the record could not be read back"));
}

template <typename Map>
absl::Status ValidateKeysAreUtf8(const char* field, const Map& map) {
  for (const auto& [key, value] : map) {
    if (!base::IsValidUtf8(key)) return Invalid(absl::StrCat("a key of ", field, " is not UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status ValidateGradeStrings(const v1::Grade& grade) {
  INGOT_RETURN_IF_ERROR(ValidateStrings(grade));
  INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("call_rewards", grade.call_rewards()));
  for (const v1::TermValue& term : grade.terms()) {
    INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("terms.calls", term.calls()));
    INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("terms.measures", term.measures()));
    INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("terms.tokens", term.tokens()));
  }
  return absl::OkStatus();
}

absl::Status ValidateId(const char* field, const std::string& id) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return Invalid(absl::StrCat(field, " has ", id.size(), " bytes: 1 to ", kMaxIdBytes));
  }
  if (id.find('\0') != std::string::npos) return Invalid(absl::StrCat(field, " contains a zero byte"));
  return absl::OkStatus();
}

template <typename Keys>
absl::Status ValidateKeys(const char* field, const Keys& keys) {
  for (int i = 0; i < keys.size(); ++i) {
    if (keys[i].size() != kContentKeyBytes) {
      return Invalid(absl::StrCat(field, "[", i, "] has ", keys[i].size(), " bytes instead of ", kContentKeyBytes));
    }
  }
  return absl::OkStatus();
}

// `earned` is an Episode or a request with rewards.
template <typename Earned>
absl::Status ValidateRewards(const Earned& earned) {
  INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("signals", earned.signals()));
  INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("call_rewards", earned.call_rewards()));
  INGOT_RETURN_IF_ERROR(ValidateKeysAreUtf8("facts", earned.facts()));
  for (const auto& [name, fact] : earned.facts()) {
    if (!base::IsValidUtf8(fact)) return Invalid(absl::StrCat("fact '", name, "' is not UTF-8"));
  }
  if (const std::string fault = tree::RewardFault(earned.reward()); !fault.empty()) return Invalid("reward " + fault);
  for (const auto& [name, value] : earned.signals()) {
    const std::string fault = tree::SignalFault(value);
    if (!fault.empty()) return Invalid(absl::StrCat("signal '", name, "' ", fault));
  }
  INGOT_RETURN_IF_ERROR(ValidateFactBounds(earned.facts()));
  for (const auto& [call, reward] : earned.call_rewards()) {
    const std::string fault = tree::RewardFault(reward);
    if (!fault.empty()) return Invalid(absl::StrCat("the reward of call '", call, "' ", fault));
  }
  return absl::OkStatus();
}

absl::Status ValidateSampling(const v1::SamplingParams& sampling) {
  const auto bad = [](float value) { return !std::isfinite(value) || value < 0; };
  if (bad(sampling.temperature())) return Invalid(absl::StrCat("temperature is ", sampling.temperature()));
  if (bad(sampling.top_p())) return Invalid(absl::StrCat("top_p is ", sampling.top_p()));
  if (bad(sampling.min_p())) return Invalid(absl::StrCat("min_p is ", sampling.min_p()));
  return absl::OkStatus();
}

absl::Status ValidateCall(const v1::Call& call) {
  INGOT_RETURN_IF_ERROR(ValidateId("call_id", call.call_id()));
  INGOT_RETURN_IF_ERROR(ValidateId("episode_id", call.episode_id()));
  if (call.sequence() < 0) return Invalid(absl::StrCat("sequence is ", call.sequence(), ": must be >= 0"));
  if (call.has_continued_segments()) {
    if (call.continued_segments() < 0)
      return Invalid(absl::StrCat("continued_segments is ", call.continued_segments()));
    if (call.parent_call_id().empty()) return Invalid("continued_segments without parent_call_id");
  } else if (call.context_keys().empty()) {
    return Invalid("context_keys is empty: a call continues at least one prompt id");
  }
  if (call.finish() == v1::FINISH_PAUSED && call.sampled_keys().empty()) {
    return Invalid("sampled_keys is empty: a call is paused after a sampled id");
  }
  if (call.context_tokens() <= 0) return Invalid(absl::StrCat("context_tokens is ", call.context_tokens()));
  INGOT_RETURN_IF_ERROR(ValidateKeys("context_keys", call.context_keys()));
  INGOT_RETURN_IF_ERROR(ValidateKeys("sampled_keys", call.sampled_keys()));
  if (call.delivered_tokens() < 0) return Invalid(absl::StrCat("delivered_tokens is ", call.delivered_tokens()));
  if (call.cached_tokens() < 0) return Invalid(absl::StrCat("cached_tokens is ", call.cached_tokens()));
  return ValidateSampling(call.sampling());
}

absl::Status ValidateSampled(const v1::Segment& segment) {
  const int ids = segment.token_ids_size();
  if (!segment.placeholders().empty()) return Invalid("a sampled segment has placeholders");
  if (segment.routes().size() % (2 * static_cast<size_t>(ids)) != 0) {
    return Invalid(absl::StrCat(segment.routes().size(), " bytes of routes for ", ids, " token_ids"));
  }
  if (tree::AlternativesPerId(segment) < 0) {
    return Invalid(absl::StrCat(segment.alternative_ids_size(), " alternatives with ",
                                segment.alternative_logprobs_size(), " logprobs for ", ids, " token_ids"));
  }
  if (segment.logprobs_size() != ids) {
    return Invalid(absl::StrCat(segment.logprobs_size(), " logprobs for ", ids, " token_ids"));
  }
  for (int i = 0; i < ids; ++i) {
    if (!std::isfinite(segment.logprobs(i))) {
      return Invalid(absl::StrCat("logprobs[", i, "] is ", segment.logprobs(i), ": must be finite"));
    }
  }
  int64_t covered = 0;
  for (const v1::VersionRun& run : segment.versions()) {
    if (run.count() <= 0) return Invalid(absl::StrCat("a version run covers ", run.count(), " tokens"));
    if (run.version() < 0) return Invalid(absl::StrCat("a version run has version ", run.version()));
    covered += run.count();
  }
  if (covered != ids) return Invalid(absl::StrCat("versions cover ", covered, " of ", ids, " token_ids"));
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSegment(const v1::Segment& segment) {
  if (segment.token_ids().empty()) return Invalid("token_ids is empty");
  for (int i = 0; i < segment.token_ids_size(); ++i) {
    if (segment.token_ids(i) < 0) return Invalid(absl::StrCat("token_ids[", i, "] is ", segment.token_ids(i)));
  }
  if (segment.source() == v1::SOURCE_SAMPLED) return ValidateSampled(segment);
  if (segment.source() != v1::SOURCE_PROMPT) return Invalid("source is neither PROMPT nor SAMPLED");
  if (!segment.logprobs().empty() || !segment.versions().empty()) {
    return Invalid("a prompt segment has logprobs or versions");
  }
  if (!segment.routes().empty()) return Invalid("a prompt segment has routes");
  if (!segment.alternative_ids().empty() || !segment.alternative_logprobs().empty()) {
    return Invalid("a prompt segment has alternatives");
  }
  const std::string fault = base::PlaceholdersFault(segment.placeholders(), segment.token_ids_size());
  return fault.empty() ? absl::OkStatus() : Invalid(fault);
}

absl::Status ValidateStoreEpisode(const v1::StoreEpisodeRequest& request) {
  const v1::Episode& episode = request.episode();
  INGOT_RETURN_IF_ERROR(ValidateId("episode_id", episode.episode_id()));
  const v1::EpisodeRef& ref = episode.ref();
  if (ref.group_id() < 0) return Invalid(absl::StrCat("group_id is ", ref.group_id()));
  if (ref.sample_index() < 0) return Invalid(absl::StrCat("sample_index is ", ref.sample_index()));
  if (ref.attempt() < 0) return Invalid(absl::StrCat("attempt is ", ref.attempt()));
  if (episode.gateway_token() < 0) return Invalid(absl::StrCat("gateway_token is ", episode.gateway_token()));
  if (!v1::EpisodePurpose_IsValid(episode.purpose())) return Invalid(absl::StrCat("purpose is ", episode.purpose()));
  if (episode.state() != v1::EPISODE_OPEN && episode.state() != v1::EPISODE_UNSPECIFIED) {
    return Invalid("a new episode must be OPEN; StoreEnd ends it");
  }
  INGOT_RETURN_IF_ERROR(ValidateRewards(episode));
  return ValidateStrings(request);
}

absl::Status ValidateAppendCall(const v1::AppendCallRequest& request, int64_t max_bytes) {
  const int64_t bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes > max_bytes) {
    return Invalid(absl::StrCat("the call has ", bytes, " bytes, more than the pool's max_call_bytes ", max_bytes));
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(ValidateCall(request.call()), "call '" + request.call().call_id() + "'"));
  for (int i = 0; i < request.segments_size(); ++i) {
    const absl::Status status = ValidateSegment(request.segments(i));
    if (!status.ok()) return base::Annotate(status, absl::StrCat("segments[", i, "]"));
  }
  return ValidateStrings(request);
}

absl::Status ValidateFactBounds(const google::protobuf::Map<std::string, std::string>& facts) {
  if (facts.size() <= tree::kMaxFacts && tree::FactBytes(facts) <= tree::kMaxFactBytes) return absl::OkStatus();
  return Invalid(absl::StrCat(facts.size(), " facts of ", tree::FactBytes(facts), " bytes; at most ", tree::kMaxFacts,
                              " of ", tree::kMaxFactBytes, " in all"));
}

absl::Status ValidateStoreReward(const v1::StoreRewardRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateId("episode_id", request.episode_id()));
  if (!request.has_reward() && request.signals().empty() && request.facts().empty() && request.call_rewards().empty()) {
    return Invalid("nothing to add: there is no reward, signal, fact, or call reward");
  }
  if (request.number() < 0) return Invalid(absl::StrCat("number is ", request.number(), ": must be >= 0"));
  INGOT_RETURN_IF_ERROR(ValidateRewards(request));
  return ValidateStrings(request);
}

absl::Status ValidateStoreEnd(const v1::StoreEndRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateId("episode_id", request.episode_id()));
  if (!tree::IsEnd(request.state())) {
    return Invalid("an episode ends as FINISHED, FAILED, INFRASTRUCTURE_FAILED, FENCED, or FORKED");
  }
  if (request.has_unless_rewarded()) {
    const bool has_outcome = request.has_reward() || !request.call_rewards().empty();
    if (request.state() != v1::EPISODE_FINISHED || has_outcome) {
      return Invalid("unless_rewarded requires a FINISHED end without an outcome");
    }
    v1::StoreRewardRequest outcome;
    outcome.set_reward(request.unless_rewarded().reward());
    *outcome.mutable_signals() = request.unless_rewarded().signals();
    *outcome.mutable_facts() = request.unless_rewarded().facts();
    INGOT_RETURN_IF_ERROR(base::Annotate(ValidateRewards(outcome), "unless_rewarded"));
  }
  INGOT_RETURN_IF_ERROR(ValidateRewards(request));
  return ValidateStrings(request);
}

absl::Status ValidateTakeOverEpisode(const v1::TakeOverEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateId("episode_id", request.episode_id()));
  INGOT_RETURN_IF_ERROR(ValidateId("gateway", request.gateway()));
  if (request.gateway_token() > 0) return absl::OkStatus();
  return Invalid(
      absl::StrCat("gateway_token is ", request.gateway_token(), ": it must be > 0 to take over an episode"));
}

absl::Status ValidateStoreGrades(const v1::StoreGradesRequest& request) {
  if (request.group_id() < 0) return Invalid(absl::StrCat("group_id is ", request.group_id()));
  if (request.purpose() != v1::PURPOSE_TRAIN && request.purpose() != v1::PURPOSE_EVAL) {
    return Invalid("served episodes do not belong to a group and get no grade");
  }
  if (request.grades().empty()) return Invalid("no grades");
  for (const auto& [episode_id, grade] : request.grades()) {
    INGOT_RETURN_IF_ERROR(ValidateId("episode_id", episode_id));
    if (!base::IsValidUtf8(episode_id)) return Invalid("an episode_id is not UTF-8");
    if (const std::string fault = tree::RewardFault(grade.reward()); !fault.empty()) {
      return Invalid(absl::StrCat("the reward of episode '", episode_id, "' ", fault));
    }
    for (const auto& [call, reward] : grade.call_rewards()) {
      if (const std::string fault = tree::RewardFault(reward); !fault.empty()) {
        return Invalid(absl::StrCat("the reward of call '", call, "' ", fault));
      }
    }
    INGOT_RETURN_IF_ERROR(base::Annotate(ValidateGradeStrings(grade), absl::StrCat("the grade of '", episode_id, "'")));
  }
  return ValidateStrings(request);
}

absl::Status ValidateGetEpisode(const v1::GetEpisodeRequest& request) {
  return ValidateId("episode_id", request.episode_id());
}

absl::Status ValidateListEpisodes(const v1::ListEpisodesRequest& request) {
  if (request.limit() < 0) return Invalid(absl::StrCat("limit is ", request.limit()));
  if (request.max_bytes() < 0) return Invalid(absl::StrCat("max_bytes is ", request.max_bytes()));
  return absl::OkStatus();
}

absl::Status ValidateAppendJournal(const v1::AppendJournalRequest& request, int64_t max_bytes) {
  if (request.fencing_token() < 0) return Invalid(absl::StrCat("fencing_token is ", request.fencing_token()));
  if (request.records().empty() && request.fencing_token() == 0) return Invalid("no journal records");
  const int64_t bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes > max_bytes) return Invalid(absl::StrCat("journal records of ", bytes, " bytes, more than ", max_bytes));
  for (int i = 0; i < request.records_size(); ++i) {
    if (request.records(i).record_case() == v1::JournalRecord::RECORD_NOT_SET) {
      return Invalid(absl::StrCat("records[", i, "] is empty"));
    }
  }
  return ValidateStrings(request);
}

}  // namespace ingot::datapool
