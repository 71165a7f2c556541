// The client's name for the conversation of a request. It separates conversations with the same key in the record: it
// is the call's branch. Pure.
#pragma once

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

// Sets request.branch, request.parent_branch, and request.session: the client's session, otherwise the parent, otherwise
// the branch. The first of these places that has a name gives it:
//   1. the body's metadata.branch, the gateway's own field
//   2. headers of clients, in the order of kThreadNames
//   3. fields of the body, in the order of kThreadNames
// A name that is not a string counts as missing.
void ReadThread(const Headers& headers, Fields& body, GatewayRequest& request);

}  // namespace ingot::gateway
