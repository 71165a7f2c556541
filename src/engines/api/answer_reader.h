// Converts the events of one server request into a call's chunks. Checks everything that is recorded: ids, log-probs,
// and the versions that sampled them. Applies Ingot's own stop strings and repetition rule (rollout.halt), so they work
// the same way on every engine. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/api/engine_api.h"
#include "proto/rollout.pb.h"
#include "rollout/sampling/repetition_watch.h"
#include "rollout/sampling/stop_matcher.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::engines {

class AnswerReader {
 public:
  // Returns the version with this label, or nullopt if Ingot never set this label on the server.
  using VersionOf = std::function<std::optional<int64_t>(const std::string& label)>;

  // The request's fields that determine which versions an answer may have.
  struct VersionRules {
    int64_t pinned = -1;       // GenerateRequest.pinned_version
    int64_t at_least = 0;      // GenerateRequest.min_version, unless pinned
    std::string sent_as = {};  // label of the weights that were live when the request was sent
    bool keeps_cache = true;   // tokens of later weights used the KV cache of earlier ones (SwapMode::kKeep)
    // If labels identify the base model, the version whose adapter samples the whole answer; -1 = labels identify
    // versions.
    int64_t adapter = -1;
  };

  // `tokenizer` may be null if the request has no stop strings.
  AnswerReader(const v1::GenerateRequest& request, const ServedModel& model,
               std::shared_ptr<const text::Tokenizer> tokenizer, const rollout::HaltOptions& halt);

  // Returns the event's chunk, with provisional versions: those that are live now. The chunk may be empty. The last
  // chunk has a finish reason and answer_versions. REQUIRES: the last chunk has not been returned.
  //   DATA_LOSS    an id is outside the vocabulary, missing, or repeated, or a log-prob is missing, positive, or not a
  //                number
  //   UNAVAILABLE  the server aborted the request or failed, a label is not Ingot's, or a token is older than allowed
  absl::StatusOr<v1::GenerateChunk> Take(const AnswerEvent& event, int64_t live_version, const VersionRules& rules,
                                         const VersionOf& version_of);

  // Returns whether one of Ingot's rules has ended the answer. The caller then aborts the request. The last event still
  // provides the versions. Later ids are dropped.
  bool ended() const { return finish_ != v1::FINISH_UNSPECIFIED; }
  // Returns whether the last error was caused by a label that Ingot did not set.
  bool saw_foreign_label() const { return foreign_label_; }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int64_t dropped() const { return dropped_; }  // number of ids after the end
  // Returns whether the final versions differ from the provisional ones.
  bool corrected() const { return corrected_; }

 private:
  absl::Status TakeId(const AnswerEvent& event, size_t index, v1::GenerateChunk& chunk);
  void ApplyRules(int32_t id, float logprob);
  absl::Status Finish(const AnswerEvent& event, const VersionRules& rules, const VersionOf& version_of,
                      v1::GenerateChunk& chunk);
  absl::Status AddVersions(const AnswerEvent& event, const VersionRules& rules, const VersionOf& version_of,
                           v1::GenerateChunk& chunk);

  const ServedModel& model_;
  const int32_t top_logprobs_;
  const int64_t most_ids_, min_new_tokens_;
  const v1::SamplingParams flags_;  // penalty_acted, bias_acted, and grammar_acted of the last chunk
  std::optional<rollout::StopMatcher> stops_;
  std::optional<rollout::RepetitionWatch> watch_;
  std::vector<int32_t> ids_;
  v1::FinishReason finish_ = v1::FINISH_UNSPECIFIED;  // set by Ingot's rules
  std::string stop_string_;
  std::vector<int64_t> arrived_at_;  // the provisional version of each id
  bool foreign_label_ = false;
  bool corrected_ = false;
  int64_t dropped_ = 0;
  int64_t received_ = 0;  // ids, with the dropped ones
};

}  // namespace ingot::engines
