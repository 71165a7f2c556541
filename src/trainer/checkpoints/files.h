// Helpers that read whole files and write text files in model folders.
#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// Writes text files to `dir` by name and fsyncs each one. A name may include one subdirectory, which is created.
absl::Status WriteTexts(const std::string& dir, const std::map<std::string, std::string>& texts);

}  // namespace ingot::trainer
