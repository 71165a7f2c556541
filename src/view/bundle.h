// The page's files, which the build makes from web/ and embeds in the program.
#pragma once

#include <span>
#include <string_view>

namespace ingot::view {

struct BundleFile {
  std::string_view path;  // of its URL, such as "/app.js"; the page itself is "/"
  std::string_view content_type;
  std::string_view bytes;
};

// Empty = the program was built without npm and has no page.
std::span<const BundleFile> Bundle();

}  // namespace ingot::view
