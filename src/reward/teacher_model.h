// The model that a teacher term asks. An interface: src/app implements it over engines (rollout/client.h); tests use a
// function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::reward {

// A call of the student: the ids of its prompt, then the ids that it sampled.
struct TeacherQuestion {
  std::string model;         // the teacher's name in gateway.models
  std::vector<int32_t> ids;  // prompt and sampled
  int32_t sampled = 0;       // the number of last `ids` to score; > 0, fewer than all
  float temperature = 1;     // > 0
  double timeout_s = 60;
};

class TeacherModel {
 public:
  virtual ~TeacherModel() = default;

  // log_softmax(raw logits / temperature) of each sampled id under the teacher, [sampled]. Blocks up to timeout_s;
  // thread safe. UNAVAILABLE: a retry may help. NOT_FOUND: there is no such model, or no engine holds its version.
  virtual absl::StatusOr<std::vector<float>> Score(const TeacherQuestion& question) const = 0;

  // The fingerprint of the teacher's tokenizer (Call.tokenizer_fingerprint); empty = unknown. The same errors as Score.
  virtual absl::StatusOr<std::string> Tokenizer(const std::string& model) const = 0;
};

}  // namespace ingot::reward
