#include "execution/cases.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "execution/cancellations.h"
#include "execution/fields.h"
#include "execution/files_api.h"
#include "execution/run_to_end.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using SteadyClock = std::chrono::steady_clock;

constexpr double kUsualTotalSeconds = 600;
constexpr double kLongestTotalSeconds = 24 * 3600;

const Keys& NewSandboxKeys() {
  static const Keys kKeys{
      .kind = "a batch",
      .request = {"language", "code", "command", "files", "env", "cases", "image", "limits"},
      .limits = {"wall_s", "total_s", "memory_bytes", "output_bytes", "cpu_s", "processes", "cpus"}};
  return kKeys;
}

const Keys& SessionKeys() {
  static const Keys kKeys{.kind = "a batch in a session",
                          .request = {"language", "code", "command", "files", "env", "cases", "stream", "limits"},
                          .limits = {"wall_s", "total_s", "memory_bytes", "output_bytes", "cpu_s"}};
  return kKeys;
}

absl::StatusOr<Batch> ParseBatch(const value& request, const Keys& keys) {
  INGOT_RETURN_IF_ERROR(CheckKeys(request, keys));
  Batch batch;
  INGOT_ASSIGN_OR_RETURN(batch.limits, LimitsOf(request));
  const double wall = std::chrono::duration<double>(batch.limits.wall_time).count();
  INGOT_ASSIGN_OR_RETURN(const double total, LimitField(request, "total_s", std::max(kUsualTotalSeconds, wall),
                                                        {.most = kLongestTotalSeconds}));
  batch.total = base::FromSeconds(total);
  INGOT_ASSIGN_OR_RETURN(batch.files, MapField(request, "files"));
  INGOT_ASSIGN_OR_RETURN(batch.env, MapField(request, "env"));
  INGOT_ASSIGN_OR_RETURN(batch.code, CodeOf(request));
  INGOT_ASSIGN_OR_RETURN(batch.cases, CasesOf(request));
  if (!batch.code.file.empty()) batch.files[batch.code.file] = batch.code.text;
  return batch;
}

using Runner = std::function<absl::StatusOr<sandbox::Outcome>(const std::string& in, const sandbox::Limits& limits)>;

absl::StatusOr<object> RunCases(const Batch& batch, SteadyClock::time_point end, const sandbox::Cancellation& cancel,
                                const Runner& run) {
  array results;
  for (const std::string& each : batch.cases) {
    INGOT_RETURN_IF_ERROR(CheckWanted(cancel));
    const std::chrono::nanoseconds left = end - SteadyClock::now();
    if (left.count() <= 0) {
      results.push_back(CaseOf(sandbox::Outcome(), "not_run"));
      continue;
    }
    sandbox::Limits limits = batch.limits;
    limits.wall_time = std::min(limits.wall_time, left);
    const absl::StatusOr<sandbox::Outcome> outcome = run(each, limits);
    INGOT_RETURN_IF_ERROR(CheckWanted(cancel));
    INGOT_RETURN_IF_ERROR(outcome.status());
    const bool is_cut = outcome->ending == sandbox::Ending::kTimedOut && left < batch.limits.wall_time;
    results.push_back(CaseOf(*outcome, is_cut ? "total_timeout" : EndingOf(outcome->ending, outcome->memory_kills)));
  }
  return object{{"cases", std::move(results)}};
}

}  // namespace

absl::StatusOr<Batch> ParseNewSandboxBatch(const value& request, const sandbox::GroupLimits& most) {
  INGOT_ASSIGN_OR_RETURN(Batch batch, ParseBatch(request, NewSandboxKeys()));
  INGOT_ASSIGN_OR_RETURN(batch.image, ImageOf(request));
  INGOT_ASSIGN_OR_RETURN(batch.totals, TotalsOf(request, {.processes = most.processes, .cpus = most.cpus}));
  if (most.memory_bytes > 0) batch.totals.memory_bytes = std::min(batch.totals.memory_bytes, most.memory_bytes);
  return batch;
}

absl::StatusOr<Batch> ParseSessionBatch(const value& request) { return ParseBatch(request, SessionKeys()); }

absl::StatusOr<object> RunInNewSandbox(sandbox::Substrate& substrate, const sandbox::Image& image, const Batch& batch,
                                       const sandbox::Cancellation& cancel) {
  sandbox::SandboxOptions options;
  options.image = image.rootfs;
  options.totals = batch.totals;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, substrate.Prepare(options));
  const SteadyClock::time_point end = SteadyClock::now() + batch.total;
  for (const auto& [path, text] : batch.files)
    INGOT_RETURN_IF_ERROR(base::Annotate(sandbox->WriteFile(path, text), "files"));
  sandbox::Command command{.argv = batch.code.argv, .env = image.env, .working_dir = sandbox->work(), .stdin_text = ""};
  command.env.emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  command.env["HOME"] = sandbox->home();
  command.env["TMPDIR"] = sandbox->tmp();
  for (const auto& [name, text] : batch.env) command.env[name] = text;
  return RunCases(batch, end, cancel, [&](const std::string& in, const sandbox::Limits& limits) {
    command.stdin_text = in;
    return sandbox->Run(command, limits, &cancel);
  });
}

absl::StatusOr<object> RunInSession(Session& session, const Batch& batch, const sandbox::Cancellation& cancel) {
  const SteadyClock::time_point end = SteadyClock::now() + batch.total;
  for (const auto& [path, text] : batch.files) {
    INGOT_RETURN_IF_ERROR(CheckWanted(cancel));
    INGOT_RETURN_IF_ERROR(base::Annotate(WriteWhole(session, path, text), "files"));
  }
  return RunCases(batch, end, cancel, [&](const std::string& in, const sandbox::Limits& limits) {
    Program program;
    program.argv = batch.code.argv;
    program.env = batch.env;
    program.memory_bytes = limits.memory_bytes;
    program.cpu_seconds = limits.cpu_seconds;
    program.wall_time = limits.wall_time;
    return RunToEnd(session, std::move(program), in, limits.output_bytes, &cancel);
  });
}

}  // namespace ingot::execution
