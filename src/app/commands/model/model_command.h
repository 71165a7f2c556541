// `ingot model NAME`: commands that work on a model folder without a run. Each prints one JSON object to stdout, except
// `info` with a GPU, which prints a table.
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
  std::string out;                    // output folder
  std::string adapter;                // PEFT folder; empty = none
  std::string other;                  // a second model folder; empty = none
  std::string file;                   // GGUF file
  std::vector<int64_t> ids;           // token ids
  std::string dtype = "model";        // fp32, bf16, or model = the folder's own type
  bool all = false;                   // true = logits for all positions; false = only for the last position
  int64_t kv_cache_tokens = 65536;    // info: KV cache size for which to print the memory use
  int64_t micro_batch_tokens = 8192;  // info: training step size for which to print the memory use
  // info, for the plan of a GPU:
  std::string device;     // GpuMachine; empty = no plan
  int ranks = 1;          // trainer ranks, one for each GPU
  int64_t lora_rank = 0;  // 0 = all weights are trained
  bool checkpoint_layers = false;
  int64_t context_length = 0;  // 0 = the model's
  bool json = false;           // print JSON instead of a table
};

// An entry in the command table. To add a command, add it to ModelCommands and its options to ModelArgs.
struct ModelCommand {
  std::string_view name, help;
  // Fields of ModelArgs that the command uses: "file" and "out" (required, positional), "model" and "ids" (required),
  // "adapter", "with", "dtype", "all", "kv-cache-tokens", "micro-batch-tokens", "plan" (the options for a GPU's plan).
  std::vector<std::string_view> options;
  absl::StatusOr<std::string> (*run)(const ModelArgs& args);  // returns what it prints
};
const std::vector<ModelCommand>& ModelCommands();

// Returns the exit code: 0 for success, 1 or 2 with a line on `errors` (process.h), and 2 if the command does not
// exist.
int RunModelCommand(std::string_view name, const ModelArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
