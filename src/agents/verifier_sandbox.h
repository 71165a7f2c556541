// The sandboxes of an episode: of its agent, and of a verifier that runs a program among the agent's files. `ingot tasks check` and
// runs open them alike.
//
//   "agent"     the agent's own sandbox, once its last process is gone. The verifier has a HOME of its own.
//   "changed"   a new sandbox with every file that the agent left: work/, home/ and, with an image, what it changed in it
//   "pristine"  a new sandbox with work/, home/ and the image as it was. Of the image only the folder that commands start in is the
//               agent's. No program outside of it is one that an agent put there.
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

// The kind of the verifier sandbox: `verifier_sandbox` without "auto". Empty: the verifier runs no program among the agent's files.
std::string VerifierSandboxOf(const RecipeOptions& recipe);

// The task's limits become the sandbox's, where those of the sandbox (`usual`) are not smaller.
void Limit(const reward::HarborTask& task, const sandbox::SubstrateOptions& usual, sandbox::SandboxOptions& options);

// A new sandbox of the kind "changed" or "pristine". `options`: of the agent's sandbox, which no command runs in. `folder`: in the
// image, the one that commands start in, or a link of the image to it. `is_harbor`: it has /tests and /logs too. DATA_LOSS: the agent's files are at fault.
absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> OpenVerifierSandbox(const std::string& kind,
                                                                      sandbox::Substrate& substrate,
                                                                      sandbox::Sandbox& of_agent,
                                                                      sandbox::SandboxOptions options,
                                                                      const std::string& folder, bool is_harbor);

// The variables of an image for its verifier. A path that leads into the working folder by a link of the image is named as one
// below that folder, so that nobody takes it for another place.
std::map<std::string, std::string> VariablesOfVerifier(const sandbox::Image& image);

// Runs the command in the sandbox until it exits with 0. UNAVAILABLE: it failed as often as it may. CANCELLED. `like` has the
// environment and the folder.
absl::Status AwaitHealth(const reward::HealthCheck& check, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                         const sandbox::Cancellation* cancel);

}  // namespace ingot::agents
