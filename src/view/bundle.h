// Provides the page's files, which the build creates from web/ and embeds in the program.
#pragma once

#include <span>
#include <string_view>

namespace ingot::view {

struct BundleFile {
  std::string_view path;  // URL path, such as "/app.js"; the page itself is "/"
  std::string_view content_type;
  std::string_view bytes;
};

// Returns an empty span if the program was built without npm and has no page.
std::span<const BundleFile> Bundle();

}  // namespace ingot::view
