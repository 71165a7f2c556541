// Published recipes as named sets of trainer settings. A preset is only values: the reader of the configuration sets
// the values that the user did not set, and prints them with the rest.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ingot::trainer {

// Field of TrainerOptions -> value, spelled as in the configuration file.
using PresetSettings = std::vector<std::pair<std::string, std::string>>;

// All known names, "none" first.
std::vector<std::string> PresetNames();

// The settings of a preset; empty for "none". INVALID_ARGUMENT lists the known names.
absl::StatusOr<PresetSettings> Preset(const std::string& name);

}  // namespace ingot::trainer
