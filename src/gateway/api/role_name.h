// The role of a call, such as one player of a game, as its client names it: the record keeps it, and rewards may be
// compared by it (trainer.advantage_groups). Pure.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

inline constexpr std::string_view kRoleHeader = "x-ingot-role";

// Takes the role off a key of the form KEY:role=NAME and leaves KEY. Empty = the key has no role, and stays unchanged.
// This gives a role to clients that can configure only a key.
std::string TakeRole(std::string& key);

// Sets request.role. The first of these places that has a name gives it:
//   1. the body's metadata.ingot_role
//   2. the header kRoleHeader; over HTTP, then the role of the key
// A name that is not a string counts as missing.
void ReadRole(const Headers& headers, Fields& body, GatewayRequest& request);

}  // namespace ingot::gateway
