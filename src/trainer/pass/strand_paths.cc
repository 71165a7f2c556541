#include "trainer/pass/strand_paths.h"

#include "tree/strands.h"

namespace ingot::trainer {

StrandPaths::StrandPaths(std::span<const int32_t> positions, int32_t first_query) {
  const tree::StrandPlan plan = tree::PlanStrands(positions, first_query);
  runs_.reserve(plan.runs.size());
  for (const tree::PathRun& run : plan.runs) runs_.push_back({run.depth, run.row});
  paths_.reserve(plan.strands.size());
  for (const tree::Strand& strand : plan.strands) {
    kernels::AttentionSequence& path = paths_.emplace_back();
    path.q_begin = strand.first_query - first_query;
    path.q_count = strand.queries;
    path.q_offset = strand.depth;
    path.key_count = strand.keys();
    path.key_runs = runs_.data() + strand.first_run;
    path.key_run_count = strand.runs;
  }
}

}  // namespace ingot::trainer
