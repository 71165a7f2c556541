// `ingot export`.
#pragma once

#include <string>

namespace ingot::app {

struct ExportArgs {
  std::string run_dir;
  std::string out;         // a JSONL file, replaced
  std::string as = "sft";  // or "dpo", or "atif"
  double above = 0.5;      // an episode is correct if its outcome is above it
  bool shortest = false;   // sft: only the shortest correct episode of each group
  // sft: the signal that is an episode's recall; empty = the outcome decides. From `recall_high` on all episodes are
  // kept, below it in proportion, and those of recall 0 up to `zero_share` of the kept ones.
  std::string recall;
  double recall_high = 0.8;
  double zero_share = 0.05;
};
int Export(const ExportArgs& args);

}  // namespace ingot::app
