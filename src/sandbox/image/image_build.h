// Builds an image from a folder with a Dockerfile, using buildah in a BuildSandbox. The Dockerfile's author controls
// the programs that run in the build steps. build_sandbox.h describes what they may do.
//
// buildah pulls base images inside the sandbox, so the registry must be one of the allowed hosts.
#pragma once

#include <string>

#include "base/status.h"
#include "sandbox/egress/egress_list.h"
#include "sandbox/image/image_tools.h"

namespace ingot::sandbox {

// Returns the archive as a source ("oci-archive:FILE"). The archive is in tools.folder() and is untrusted. Returns the
// errors of ImageTools::Run and BuildSandbox::Make. If a build fails, the error lists the hosts it could not access.
absl::StatusOr<std::string> BuildImage(const std::string& folder, const EgressList& hosts, const ImageTools& tools);

}  // namespace ingot::sandbox
