// Builds the image of a folder with a Dockerfile, with buildah in a BuildSandbox. The steps of a Dockerfile are its
// author's programs: build_sandbox.h says what they may do.
//
// buildah pulls base images inside the sandbox, so their registry is a host like any other: it must be in the list.
#pragma once

#include <string>

#include "base/status.h"
#include "sandbox/egress/egress_list.h"
#include "sandbox/image/image_tools.h"

namespace ingot::sandbox {

// Returns the source ("oci-archive:FILE") of the archive, which lies in the folder of `tools` and is a stranger's.
// Errors as for ImageTools::Run and BuildSandbox::Make. A failed build's error names the hosts that it was denied.
absl::StatusOr<std::string> BuildImage(const std::string& folder, const EgressList& hosts, const ImageTools& tools);

}  // namespace ingot::sandbox
