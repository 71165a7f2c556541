// An ObjectStore in a bucket of S3, or of a server that speaks its protocol with conditional PUT (If-Match,
// If-None-Match).
//
// Requests are signed by libcurl (AWS Signature 4). Objects of more than part_bytes go up in parts and come in ranges,
// `parallel` at a time. A request that the server or the network failed is repeated until the deadline, after longer and
// longer waits. A tag is the object's ETag.
#pragma once

#include <memory>

#include "weights/stores/object_store.h"
#include "weights/stores/s3_options.h"

namespace ingot::weights {

// Connects to nobody yet; CheckStore tells whether bucket and credentials are good.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Store(S3Options options, S3Credentials credentials);

}  // namespace ingot::weights
