// RUN/tokenizer: the files that commands need to read a run's token ids. They are copied when the run starts, so the
// run can be read from any directory, on another machine, and after its model folder is gone.
//
//   tokenizer.json, tokenizer_config.json, ingot.json, chat templates   TextParts::files
//   config.json, generation_config.json                                 from the model, if present: end-of-turn tokens
//   source.json      {"model_path"}: the model's absolute path at startup; empty = random weights
//   checksums.json   checksums of the files above (base/written_files.h)
//
// The folder is replaced as a whole, so a crash leaves the old one, the new one, or none. If it is missing, commands
// read the model folder.
#pragma once

#include <string>

#include "app/models/text_parts.h"
#include "base/status.h"

namespace ingot::app {

// Copies `text`, which was loaded from the model folder `model_path` (empty = random weights). Durable on OK. REQUIRES:
// no other process writes this run's tokenizer.
absl::Status KeepTokenizer(const std::string& run_dir, const std::string& model_path, const TextParts& text);

bool HasKeptTokenizer(const std::string& run_dir);

// Loads the kept text parts. Returns NOT_FOUND if the run has none, or the errors of LoadTextParts.
absl::StatusOr<TextParts> KeptTextParts(const std::string& run_dir);

// Returns the folder that `model_path` named when the run started, if it still exists, and `model_path` otherwise.
std::string KeptModelPath(const std::string& run_dir, const std::string& model_path);

}  // namespace ingot::app
