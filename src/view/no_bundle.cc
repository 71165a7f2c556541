// Used in place of the bundle if the build did not find npm.
#include "view/bundle.h"

namespace ingot::view {

std::span<const BundleFile> Bundle() { return {}; }

}  // namespace ingot::view
