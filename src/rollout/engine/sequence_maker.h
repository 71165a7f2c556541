// Validates a request and converts it to a Sequence with a compiled grammar. Thread safe.
#pragma once

#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "grammar/grammar.h"
#include "proto/rollout.pb.h"
#include "rollout/engine/engine_options.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/request_check.h"
#include "rollout/engine/sequence.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

class SequenceMaker {
 public:
  // If `tokenizer` is null, requests with stop strings or grammars fail. The other arguments must outlive this object.
  SequenceMaker(const EngineOptions& options, const ModelRunner& runner,
                std::shared_ptr<const text::Tokenizer> tokenizer, const base::Clock& clock)
      : options_(options), runner_(runner), tokenizer_(std::move(tokenizer)), clock_(clock) {}

  // Returns a new sequence without a gate, order, or version. Returns INVALID_ARGUMENT if this model or engine does not
  // support a field. The error names the field. The first grammar reads the whole vocabulary.
  absl::StatusOr<std::unique_ptr<Sequence>> Make(const v1::GenerateRequest& request);

 private:
  RequestLimits Limits() const;
  // Adds the objects that watch or change sampling.
  absl::Status AddGuards(const v1::GenerateRequest& request, Sequence* sequence);
  absl::Status AddConstraint(const v1::Grammar& grammar, Sequence* sequence);
  // `logprobs` belong to the ids sampled earlier; empty = unknown.
  static absl::Status Replay(const google::protobuf::RepeatedField<float>& logprobs, Sequence* sequence);
  void AddSlice(const v1::GenerateRequest& request, Sequence* sequence);

  const EngineOptions& options_;
  const ModelRunner& runner_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const base::Clock& clock_;
  base::Mutex grammar_mu_;
  std::unique_ptr<grammar::Compiler> grammars_ ABSL_GUARDED_BY(grammar_mu_);  // null until the first grammar
};

}  // namespace ingot::rollout
