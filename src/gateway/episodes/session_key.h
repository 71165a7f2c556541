// Computes session keys for servers where each conversation has its own session. Clients often send the same API key
// ("none"), so the API key alone does not distinguish them. Pure.
#pragma once

#include <string>

#include "gateway/api/request.h"

namespace ingot::gateway {

// Returns the session key of a request. With the same `api_key`, these requests share a session:
//   1. requests whose client names the same session, such as the conversations of an agent and its sub-agents
//      (thread_names.h)
//   2. unnamed requests whose messages are equal through the first one that is not an instruction, because the start
//      of a conversation does not change. Equal conversations are branches of one tree.
//   3. requests with prompts that are not conversations
// The request's references may be unresolved.
std::string SessionKeyOf(const std::string& api_key, const GatewayRequest& request);

}  // namespace ingot::gateway
