// `ingot model NAME`: commands on a model folder, without a run. Each prints one JSON object to stdout.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

struct ModelArgs {
  std::string dir;                    // Hugging Face model folder or checkpoint
  std::string out;                    // folder to write
  std::string adapter;                // PEFT folder; empty = none
  std::string other;                  // a second model folder; empty = none
  std::string file;                   // GGUF file
  std::vector<int64_t> ids;           // token ids
  std::string dtype = "model";        // fp32, bf16, or model: the folder's own
  bool all = false;                   // logits of every position; false = of the last
  int64_t kv_cache_tokens = 65536;    // info: of the cache whose bytes are printed
  int64_t micro_batch_tokens = 8192;  // info: of the step whose bytes are printed
};

// A command of the table. To add one, add its entry to ModelCommands and its options to ModelArgs.
struct ModelCommand {
  std::string_view name, help;
  // Fields of ModelArgs that it takes: "file" and "out" (required, positional), "model" and "ids" (required),
  // "adapter", "with", "dtype", "all", "kv-cache-tokens", "micro-batch-tokens".
  std::vector<std::string_view> options;
  absl::StatusOr<base::json::value> (*run)(const ModelArgs& args);
};
const std::vector<ModelCommand>& ModelCommands();

// Returns the exit code: 0; 1 or 2 with a line on `errors` (process.h); 2 if there is no such command.
int RunModelCommand(std::string_view name, const ModelArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
