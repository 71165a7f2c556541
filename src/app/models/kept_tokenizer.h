// RUN/tokenizer: the files that commands need to read the token ids of a run. Its start copies them, so that the run
// can be read from any folder, on another machine, and after its model's folder is gone.
//
//   tokenizer.json, tokenizer_config.json, ingot.json, chat templates   TextParts::files
//   config.json, generation_config.json                                 the model's, if there: they name ends of turns
//   source.json      {"model_path"}: the model's absolute path at the start; empty = random weights
//   checksums.json   of the files above (base/written_files.h)
//
// The folder is replaced whole: a crash leaves the old one, the new one, or none. A run without it is read from its
// model's folder.
#pragma once

#include <string>

#include "app/models/text_parts.h"
#include "base/status.h"

namespace ingot::app {

// Copies `text`, the parts of the model folder `model_path`; an empty path = random weights. Durable on OK. REQUIRES: no
// other process keeps this run's.
absl::Status KeepTokenizer(const std::string& run_dir, const std::string& model_path, const TextParts& text);

bool HasKeptTokenizer(const std::string& run_dir);

// The kept text parts. NOT_FOUND: the run has none. Other errors are LoadTextParts'.
absl::StatusOr<TextParts> KeptTextParts(const std::string& run_dir);

// The folder that the run's `model_path` named at its start, if it is still there; otherwise `model_path`.
std::string KeptModelPath(const std::string& run_dir, const std::string& model_path);

}  // namespace ingot::app
