// `ingot export`: writes a run's trajectories as training data.
#pragma once

#include <string>

namespace ingot::app {

struct ExportArgs {
  std::string run_dir;
  std::string out;         // output file (JSONL); overwritten
  std::string as = "sft";  // "sft", "dpo", or "atif"
  double above = 0.5;      // an episode is correct if its outcome is above this
  bool shortest = false;   // sft: only the shortest correct episode in each group
  // sft: name of the signal with an episode's recall; empty = use the outcome. Keeps all episodes with a recall of at
  // least `recall_high`, and a proportional share of the others. Episodes with recall 0 make up at most `zero_share` of
  // the result.
  std::string recall;
  double recall_high = 0.8;
  double zero_share = 0.05;
};
int Export(const ExportArgs& args);

}  // namespace ingot::app
