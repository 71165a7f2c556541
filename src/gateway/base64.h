// Base64 (RFC 4648, with padding). Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::gateway {

std::string Base64(std::string_view bytes);
// nullopt: `text` is not base64.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace ingot::gateway
