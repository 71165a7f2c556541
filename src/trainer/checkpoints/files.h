// Files of model folders: whole reads and texts.
#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// Writes texts by their names below `dir`, each fsynced. A name has at most one folder, which is made.
absl::Status WriteTexts(const std::string& dir, const std::map<std::string, std::string>& texts);

}  // namespace ingot::trainer
