// Seals and unseals the reasoning that Responses API clients send back. Internal to this directory.
#pragma once

#include <string>

namespace ingot::gateway {

// encrypted_content contains the item's id and the reasoning text, because some clients send back nothing else. The
// reasoning is not secret, so it is not encrypted.
inline constexpr char kSealed[] = "ingot1.";
std::string SealReasoning(const std::string& text, const std::string& id);
// Returns the text and sets `id` to the sealed id. Returns "" and leaves `id` unchanged if this gateway did not seal
// the reasoning.
std::string UnsealReasoning(const std::string& sealed, std::string& id);

}  // namespace ingot::gateway
