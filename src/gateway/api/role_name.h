// Reads the client's name for a call's role, such as a player in a game. The role is recorded, and rewards may be
// compared within a role (trainer.advantage_groups). Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

inline constexpr std::string_view kRoleHeader = "x-ingot-role";

// Splits a key of the form KEY:role=NAME. Sets `key` to KEY and returns NAME, or returns "" and leaves `key` unchanged
// if it has no role. Clients that can configure only a key use this to set their role.
std::string TakeRole(std::string& key);

// Sets request.role from the first of these sources that provides a name:
// 1. metadata.ingot_role in the body
// 2. the header kRoleHeader, then (over HTTP) the role in the key
//
// A name that is not a string counts as missing.
void ReadRole(const Headers& headers, Fields& body, GatewayRequest& request);

}  // namespace ingot::gateway
