// Interface to a teacher term's model. Implemented in src/app with engines (rollout/client.h) and by functions in
// tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::reward {

// A student's call: the ids of its prompt followed by the ids that it sampled.
struct TeacherQuestion {
  std::string model;         // the teacher's name in gateway.models
  std::vector<int32_t> ids;  // prompt ids, then sampled ids
  int32_t sampled = 0;       // number of ids at the end to score; > 0 and less than all of them
  float temperature = 1;     // > 0
  double timeout_s = 60;
};

class TeacherModel {
 public:
  virtual ~TeacherModel() = default;

  // Returns log_softmax(raw logits / temperature) of each sampled id under the teacher, shape [sampled]. Blocks up to
  // timeout_s. Thread safe. Returns UNAVAILABLE if a retry may succeed, and NOT_FOUND if the model does not exist or no
  // engine has its version.
  virtual absl::StatusOr<std::vector<float>> Score(const TeacherQuestion& question) const = 0;

  // Returns the fingerprint of the teacher's tokenizer (Call.tokenizer_fingerprint); empty = unknown. Returns the same
  // errors as Score.
  virtual absl::StatusOr<std::string> Tokenizer(const std::string& model) const = 0;
};

}  // namespace ingot::reward
