// The key of a served session where each conversation has its own. Clients of one server often send the same key ("none"),
// so the key alone does not tell them apart. Pure.
#pragma once

#include <string>

#include "gateway/api/request.h"

namespace ingot::gateway {

// The key under which the session of a request is open. Of requests with the same `api_key`, these share a session:
//   1. requests whose client names one session, such as the conversations of an agent and its sub-agents
//      (thread_names.h)
//   2. requests without a name whose messages up to the first that is no instruction are equal: a conversation's start
//      stays the same while it grows. Equal conversations share a session, and are branches of its tree.
//   3. requests with prompts that are not conversations
// REQUIRES: the request's references may be unresolved.
std::string SessionKeyOf(const std::string& api_key, const GatewayRequest& request);

}  // namespace ingot::gateway
