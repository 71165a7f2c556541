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

// Adds the clients of teacher and judge that these engines serve. `text` is the run's, and renders the judge's
// prompt. A judge with a URL is called at that URL instead.
void AddTermModels(std::shared_ptr<const ModelPlaces> places, TextParts text, reward::TermParts& parts);

// FAILED_PRECONDITION: the tokenizer of a teacher that can be reached differs from the run's (`fingerprint`). A teacher
// that does not answer is checked with the first group that it scores.
absl::Status CheckTeachers(const reward::RewardOptions& rewards, const reward::TermParts& parts,
                           const std::string& fingerprint);

}  // namespace ingot::app
