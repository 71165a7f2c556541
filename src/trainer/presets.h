// Defines published recipes as named sets of trainer settings. A preset consists only of values. The configuration
// reader applies the values that the user did not set, and prints them with the other settings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ingot::trainer {

// Field of TrainerOptions -> value, in configuration file syntax.
using PresetSettings = std::vector<std::pair<std::string, std::string>>;

// Returns all known names, "none" first.
std::vector<std::string> PresetNames();

// Returns a preset's settings, which are empty for "none". Returns INVALID_ARGUMENT, with the known names, if there is
// no such preset.
absl::StatusOr<PresetSettings> Preset(const std::string& name);

}  // namespace ingot::trainer
