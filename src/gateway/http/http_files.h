// GET /ingot/v1/episodes/ID/files: streams the files in the snapshot from which an episode starts, as a tar archive.
#pragma once

#include <functional>
#include <memory>

#include "gateway/gateway.h"
#include "http/handler.h"

namespace ingot::gateway {

// `reject` formats an error that occurs before the first byte is sent. A later error truncates the stream.
std::shared_ptr<http::Exchange> MakeFilesExchange(Gateway& gateway, Caller caller,
                                                  std::function<http::Reply(const absl::Status&)> reject);

}  // namespace ingot::gateway
