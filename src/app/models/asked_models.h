// The models of gateway.models that reward terms call: a teacher for the log-probs of ids (reward/teacher_model.h), a
// judge for its verdict (reward/judge_model.h).
#pragma once

#include <memory>
#include <string>

#include "app/models/model_places.h"
#include "app/models/text_parts.h"
#include "base/status.h"
#include "reward/options.h"
#include "reward/term_parts.h"

namespace ingot::app {

// Adds teacher and judge over these engines. `text`: the run's, which renders a judge's question. A judge with a URL
// is still called there.
void AddAskedModels(std::shared_ptr<const ModelPlaces> places, TextParts text, reward::TermParts& parts);

// FAILED_PRECONDITION: a teacher that answers now has a different tokenizer than the run (`fingerprint`). A teacher
// that does not answer is checked with the first group that it scores.
absl::Status CheckTeachers(const reward::RewardOptions& rewards, const reward::TermParts& parts,
                           const std::string& fingerprint);

}  // namespace ingot::app
