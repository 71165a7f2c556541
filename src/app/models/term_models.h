// Connects reward terms to models in gateway.models: teachers, which score ids (reward/teacher_model.h), and judges,
// which return verdicts (reward/judge_model.h).
#pragma once

#include <memory>
#include <string>

#include "app/models/model_places.h"
#include "app/models/text_parts.h"
#include "base/status.h"
#include "reward/options.h"
#include "reward/term_parts.h"

namespace ingot::app {

// Adds clients for the teacher and judge models that these engines serve. `text` is the run's TextParts and renders
// judge prompts. Judges with a URL are called at that URL instead.
void AddTermModels(std::shared_ptr<const ModelPlaces> places, TextParts text, reward::TermParts& parts);

// Returns FAILED_PRECONDITION if a reachable teacher's tokenizer differs from the run's (`fingerprint`). A teacher that
// does not answer is checked when it scores its first group.
absl::Status CheckTeachers(const reward::RewardOptions& rewards, const reward::TermParts& parts,
                           const std::string& fingerprint);

}  // namespace ingot::app
