// Reads the client's name for a request's conversation. The record stores it as the call's branch, which distinguishes
// conversations that use the same key. Pure function.
#pragma once

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

// Sets request.branch, request.parent_branch, and request.session. The session defaults to the parent, or else to the
// branch. Each name is taken from the first of these sources that has it:
//   1. the body's metadata.branch, the gateway's own field
//   2. client headers, in the order of kThreadNames
//   3. body fields, in the order of kThreadNames
// A name that is not a string counts as missing.
void ReadThread(const Headers& headers, Fields& body, GatewayRequest& request);

}  // namespace ingot::gateway
