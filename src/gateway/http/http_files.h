// GET /ingot/v1/episodes/ID/files: the files of the snapshot that an episode begins at, as a stream of a tar archive.
#pragma once

#include <functional>
#include <memory>

#include "gateway/gateway.h"
#include "http/handler.h"

namespace ingot::gateway {

// `reject` words an error that comes before the first byte. A later one cuts the stream.
std::shared_ptr<http::Exchange> MakeFilesExchange(Gateway& gateway, Caller caller,
                                                  std::function<http::Reply(const absl::Status&)> reject);

}  // namespace ingot::gateway
