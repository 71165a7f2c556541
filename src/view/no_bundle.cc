// Replaces the bundle if the build found no npm.
#include "view/bundle.h"

namespace ingot::view {

std::span<const BundleFile> Bundle() { return {}; }

}  // namespace ingot::view
