// Opens the sandbox for a verifier that runs a program on the agent's files. `ingot tasks check` and runs open it in
// the same way.
//
//   "agent"     the agent's own sandbox, after its last process has ended. The verifier has its own HOME.
//   "changed"   a new sandbox with all files that the agent left: work/, home/ and, with an image, its changes to it
//   "pristine"  a new sandbox with work/, home/, and the original image. Only the image folder where commands start is
//               the agent's, so the agent cannot have placed programs elsewhere.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agents/options.h"
#include "base/status.h"
#include "reward/harbor_task.h"
#include "sandbox/image/image.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// Returns the kind of verifier sandbox, which is `verifier_sandbox` with "auto" resolved. Returns "" if the verifier
// does not run a program on the agent's files.
std::string VerifierSandboxOf(const RecipeOptions& recipe);

// Applies the task's limits to the sandbox, unless the usual limits (`usual`) are smaller.
void Limit(const reward::HarborTask& task, const sandbox::SubstrateOptions& usual, sandbox::SandboxOptions& options);

// Opens a new sandbox whose kind is "changed" or "pristine". `options` are the options of the agent's sandbox, where no
// command may be running. `folder` is the image folder where commands start, or a link to it in the image. If
// `is_harbor` is true, the sandbox also has /tests and /logs. Returns DATA_LOSS if the agent's files are at fault.
absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> OpenVerifierSandbox(const std::string& kind,
                                                                      sandbox::Substrate& substrate,
                                                                      sandbox::Sandbox& of_agent,
                                                                      sandbox::SandboxOptions options,
                                                                      const std::string& folder, bool is_harbor);

// Returns an image's environment variables for its verifier. A path that leads into the working directory through a
// link in the image is rewritten to a path below that directory, so it is not mistaken for another location.
std::map<std::string, std::string> VariablesOfVerifier(const sandbox::Image& image);

// Runs the command in the sandbox until it exits with 0. Returns UNAVAILABLE if all attempts failed, or CANCELLED.
// `like` provides the environment and the working directory.
absl::Status AwaitHealth(const reward::HealthCheck& check, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                         const sandbox::Cancellation* cancel);

}  // namespace ingot::agents
