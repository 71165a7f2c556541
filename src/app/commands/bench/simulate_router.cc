#include "app/commands/bench/simulate_router.h"

#include <chrono>
#include <cstdio>

#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/file.h"
#include "base/json.h"
#include "rollout/simulation/trace_file.h"

namespace ingot::app {
namespace {

using rollout::EngineSimulationReport;
using rollout::RouterPolicy;

constexpr std::pair<const char*, RouterPolicy> kPolicies[] = {{"round robin", RouterPolicy::kRoundRobin},
                                                              {"fewest", RouterPolicy::kFewest},
                                                              {"sticky", RouterPolicy::kSticky},
                                                              {"cost", RouterPolicy::kCost}};
constexpr size_t kTimedPrompts = 2000;

void PrintJson(const std::string& policy, const EngineSimulationReport& r) {
  namespace json = base::json;
  const json::object object{{"router", policy},
                            {"calls", r.calls},
                            {"prompt_tokens", r.prompt_tokens},
                            {"computed_tokens", r.computed_tokens},
                            {"computed_share", r.computed_share()},
                            {"ttft_p50", r.ttft_p50},
                            {"ttft_p99", r.ttft_p99},
                            {"seconds", r.seconds},
                            {"moved", r.moved},
                            {"stayed", r.stayed},
                            {"cost_error", r.cost_error}};
  std::printf("%s\n", base::PrintJson(object).c_str());
}

void PrintLine(const char* policy, const EngineSimulationReport& r) {
  std::printf("%-12s %8.1f%% %9.3f s %9.3f s %9.1f s %7lld\n", policy, 100 * r.computed_share(), r.ttft_p50, r.ttft_p99,
              r.seconds, static_cast<long long>(r.moved));
}

// Returns one thread's decisions per second, including the time to hash the prompts.
double DecisionRate(const rollout::Trace& trace, const rollout::EngineSimulationOptions& options) {
  const auto prompts = rollout::PromptsOf(trace, kTimedPrompts);
  const auto start = std::chrono::steady_clock::now();
  rollout::RoutePrompts(prompts, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return static_cast<double>(prompts.size()) / took.count();
}

absl::Status SimulateOrError(const SimulateRouterArgs& args) {
  const std::string generated = rollout::MakeRlTrace({});
  if (!args.write_trace.empty()) return base::ReplaceFile(args.write_trace, generated);
  rollout::EngineSimulationOptions options = args.options;
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(const rollout::Trace trace,
                         args.trace.empty() ? rollout::ParseTrace(generated) : rollout::ReadTrace(args.trace));
  if (!args.json) {
    std::printf("%-12s %9s %11s %11s %11s %7s\n", "router", "computed", "TTFT p50", "TTFT p99", "run time", "moved");
  }
  for (const auto& [name, policy] : kPolicies) {
    options.router.policy = policy;
    const Underway simulating(std::string("simulate router: ") + name);
    INGOT_ASSIGN_OR_RETURN(const EngineSimulationReport report, rollout::SimulateEngines(trace, options));
    args.json ? PrintJson(name, report) : PrintLine(name, report);
  }
  if (!args.json) std::printf("cost makes %.0f decisions per second\n", DecisionRate(trace, options));
  return absl::OkStatus();
}

}  // namespace

int RunSimulateRouter(const SimulateRouterArgs& args) {
  const absl::Status done = SimulateOrError(args);
  return done.ok() ? 0 : Fail(done);
}

}  // namespace ingot::app
