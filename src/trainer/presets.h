// Published recipes as named sets of trainer settings. A preset is nothing but values: whoever reads the configuration
// sets the ones that the user did not, and prints them with the rest.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ingot::trainer {

// Field of TrainerOptions -> value, as the configuration file would say it.
using PresetSettings = std::vector<std::pair<std::string, std::string>>;

// "none" first.
std::vector<std::string> PresetNames();

// "none" sets nothing. INVALID_ARGUMENT lists the known names.
absl::StatusOr<PresetSettings> Preset(const std::string& name);

}  // namespace ingot::trainer
