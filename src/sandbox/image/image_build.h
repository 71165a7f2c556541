// Builds the image of a folder with a Dockerfile, by buildah in a BuildSandbox. The steps of a Dockerfile are its author's
// programs: what they may do, build_sandbox.h says.
//
// Base images are pulled by buildah inside, so their registry is a host like any other: it must be in the list.
#pragma once

#include <string>

#include "base/status.h"
#include "sandbox/egress/egress_list.h"
#include "sandbox/image/image_tools.h"

namespace ingot::sandbox {

// Returns the source ("oci-archive:FILE") of the archive, which lies in the folder of `tools` and is a stranger's. Errors: those of
// ImageTools::Run and BuildSandbox::Make. That of a failed build names the hosts that it asked for in vain.
absl::StatusOr<std::string> BuildImage(const std::string& folder, const EgressList& hosts, const ImageTools& tools);

}  // namespace ingot::sandbox
