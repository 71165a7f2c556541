// Reasoning that clients of the Responses API send back. Internal to the folder.
#pragma once

#include <string>

namespace ingot::gateway {

// encrypted_content holds the item's id and the reasoning's text; some clients send back nothing else. It is not
// secret, so it is not encrypted.
inline constexpr char kSealed[] = "ingot1.";
std::string SealReasoning(const std::string& text, const std::string& id);
// Returns the text and sets `id` to the sealed id. Empty: this gateway did not seal it, and `id` is unchanged.
std::string UnsealReasoning(const std::string& sealed, std::string& id);

}  // namespace ingot::gateway
