// In place of the bundle, where the build found no npm.
#include "view/bundle.h"

namespace ingot::view {

std::span<const BundleFile> Bundle() { return {}; }

}  // namespace ingot::view
