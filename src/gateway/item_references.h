// Parts of earlier answers that a client names by their ids instead of sending them (Responses: item_reference).
#pragma once

#include "base/status.h"
#include "gateway/episode.h"
#include "gateway/request.h"

namespace ingot::gateway {

// Puts what `episode`'s calls delivered in the place of request.references. 400 naming the first one that is not known
// there.
absl::Status ResolveReferences(const Episode& episode, GatewayRequest& request);

}  // namespace ingot::gateway
