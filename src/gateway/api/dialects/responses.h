// What the Responses API's requests and replies share. Internal to the folder.
#pragma once

#include <string>

namespace ingot::gateway {

// encrypted_content: whose it is and the reasoning's text, which clients that keep nothing else send back as it is.
// It is not secret, so it is not encrypted.
inline constexpr char kSealed[] = "ingot1.";
std::string SealReasoning(const std::string& text, const std::string& id);
// Empty: not one of ours, `id` stays as it is. Otherwise `id` is the one that was sealed.
std::string UnsealReasoning(const std::string& sealed, std::string& id);

}  // namespace ingot::gateway
