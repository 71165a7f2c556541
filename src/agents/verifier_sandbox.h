// The sandboxes of an episode: the agent's, and the one of a verifier that runs a program among the agent's files.
// `ingot tasks check` and runs open them the same way.
//
//   "agent"     the agent's own sandbox, once its last process is gone. The verifier has its own HOME.
//   "changed"   a new sandbox with every file that the agent left: work/, home/ and, with an image, its changes to it
//   "pristine"  a new sandbox with work/, home/ and the image as it was. Only the image's folder that commands start in
//               is the agent's: an agent cannot have put a program anywhere else.
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

// The kind of verifier sandbox: `verifier_sandbox` with "auto" resolved. Empty: the verifier runs no program among the
// agent's files.
std::string VerifierSandboxOf(const RecipeOptions& recipe);

// The task's limits become the sandbox's, unless the sandbox's own (`usual`) are smaller.
void Limit(const reward::HarborTask& task, const sandbox::SubstrateOptions& usual, sandbox::SandboxOptions& options);

// A new sandbox of the kind "changed" or "pristine". `options`: of the agent's sandbox, in which no command runs.
// `folder`: the image's folder that commands start in, or a link of the image to it. `is_harbor`: it also has /tests
// and /logs. DATA_LOSS: the agent's files are at fault.
absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> OpenVerifierSandbox(const std::string& kind,
                                                                      sandbox::Substrate& substrate,
                                                                      sandbox::Sandbox& of_agent,
                                                                      sandbox::SandboxOptions options,
                                                                      const std::string& folder, bool is_harbor);

// An image's variables for its verifier. A path that leads into the working folder through a link of the image is
// written as a path below that folder, so that it is not taken for another place.
std::map<std::string, std::string> VariablesOfVerifier(const sandbox::Image& image);

// Runs the command in the sandbox until it exits with 0. UNAVAILABLE: all tries failed. CANCELLED. `like` has the
// environment and the folder.
absl::Status AwaitHealth(const reward::HealthCheck& check, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                         const sandbox::Cancellation* cancel);

}  // namespace ingot::agents
