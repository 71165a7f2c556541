#include "agents/verifier_sandbox.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "reward/verifiers/harbor.h"

namespace ingot::agents {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

// Returns the smaller of the two limits; 0 = no limit.
template <typename Number>
Number Smaller(Number wish, Number usual) {
  return wish > 0 && usual > 0 ? std::min(wish, usual) : wish;
}

// Waits for `seconds`. Returns true if canceled.
bool Pause(double seconds, const sandbox::Cancellation* cancel) {
  pollfd end{cancel == nullptr ? -1 : cancel->fd(), POLLIN, 0};
  return poll(&end, 1, static_cast<int>(std::min(seconds, 1e6) * 1000)) == 1;
}

}  // namespace

std::string VerifierSandboxOf(const RecipeOptions& recipe) {
  const std::string& kind = recipe.verifier.kind;
  if (kind != "command" && kind != "harbor") return "";
  if (recipe.verifier_sandbox != "auto") return recipe.verifier_sandbox;
  return kind == "harbor" ? "pristine" : "agent";
}

void Limit(const reward::HarborTask& task, const sandbox::SubstrateOptions& usual, sandbox::SandboxOptions& options) {
  options.totals.cpus = Smaller(task.cpus, usual.totals.cpus);
  options.totals.memory_bytes = Smaller(task.memory_bytes, usual.totals.memory_bytes);
  options.disk.bytes = Smaller(task.storage_bytes, usual.disk.bytes);
}

absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> OpenVerifierSandbox(const std::string& kind,
                                                                      sandbox::Substrate& substrate,
                                                                      sandbox::Sandbox& of_agent,
                                                                      sandbox::SandboxOptions options,
                                                                      const std::string& folder, bool is_harbor) {
  INGOT_ASSIGN_OR_RETURN(options.from, of_agent.TakeSnapshot());
  options.is_pristine = kind == "pristine";
  const std::string place = options.image.empty() ? folder : sandbox::PlaceIn(options.image, folder);
  if (place != "/") options.kept_folder = place;
  if (is_harbor) {
    for (const sandbox::BindMount& bind : reward::HarborBinds()) options.binds.push_back(bind);
  }
  return substrate.Prepare(options);
}

std::map<std::string, std::string> VariablesOfVerifier(const sandbox::Image& image) {
  std::map<std::string, std::string> variables = image.env;
  const std::string place = sandbox::PlaceIn(image.rootfs, image.working_dir);
  if (image.rootfs.empty() || place == "/") return variables;
  for (auto& [name, text] : variables) {
    if (text.find("://") != std::string::npos) continue;
    for (size_t from = 0, to = 0; from < text.size(); from = to + 1) {
      to = std::min(text.find_first_of(": ;", from), text.size());
      if (text[from] != '/') continue;
      const std::string led = sandbox::PlaceIn(image.rootfs, text.substr(from, to - from));
      if (led != place && !led.starts_with(place + "/")) continue;
      const std::string named = image.working_dir + led.substr(place.size());
      text.replace(from, to - from, named);
      to = from + named.size();
    }
  }
  return variables;
}

absl::Status AwaitHealth(const reward::HealthCheck& check, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                         const sandbox::Cancellation* cancel) {
  sandbox::Command command = like;
  command.argv = {"sh", "-c", check.command};
  sandbox::Limits limits;
  limits.wall_time = Seconds(check.timeout_s);
  const auto start = SteadyClock::now();
  for (int64_t failures = 0;;) {
    INGOT_ASSIGN_OR_RETURN(const sandbox::Outcome outcome, sandbox.Run(command, limits, cancel));
    if (outcome.ok()) return absl::OkStatus();
    if (outcome.ending == sandbox::Ending::kCancelled) return absl::CancelledError("cancelled");
    const bool is_early = SteadyClock::now() - start < Seconds(check.start_period_s);
    if (!is_early && ++failures >= check.retries) {
      return absl::UnavailableError(absl::StrCat("healthcheck (", check.command, ") ",
                                                 sandbox::Describe(outcome, limits), ", ", failures, " times"));
    }
    if (Pause(is_early ? check.start_interval_s : check.interval_s, cancel)) return absl::CancelledError("cancelled");
  }
}

}  // namespace ingot::agents
