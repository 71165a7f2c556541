#include "app/commands/bench/bench_command.h"

#include <c10/util/Exception.h>

#include <ostream>

#include "app/terminal/progress.h"
#include "kernels/torch/attention_bench.h"
#include "kernels/torch/threads.h"

namespace ingot::app {

int BenchAttention(const BenchArgs& args, std::ostream& out, std::ostream& errors) {
  kernels::AttentionBenchOptions options;
  options.shapes = args.shapes;
  options.dtypes = args.dtypes;
  options.repeat = args.repeat;
  options.instruction_set = args.instruction_set;
  if (args.threads > 0) kernels::UseThreads(args.threads);
  try {
    Between lines("bench attention");
    kernels::RunAttentionBench(options, [&](const std::string& line) { lines.Print(out, line); });
  } catch (const c10::Error& error) {
    errors << "ingot bench attention: " << error.what_without_backtrace() << "\n";
    return 2;
  }
  return 0;
}

int BenchTree(const trainer::TreeBenchOptions& options, int threads, std::ostream& out, std::ostream& errors) {
  if (threads > 0) kernels::UseThreads(threads);
  absl::Status status;
  try {
    Between lines("bench tree");
    status = trainer::RunTreeBench(options, [&](const std::string& line) { lines.Print(out, line); });
  } catch (const c10::Error& error) {
    status = absl::InternalError(error.what_without_backtrace());
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (status.ok()) return 0;
  errors << "ingot bench tree: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace ingot::app
