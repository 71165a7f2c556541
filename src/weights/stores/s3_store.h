// An ObjectStore in an S3 bucket, or on a server that speaks its protocol with conditional PUT (If-Match,
// If-None-Match).
//
// libcurl signs requests (AWS Signature 4). Objects of more than part_bytes are uploaded in parts and read in ranges,
// `parallel` at a time. A request that failed at the server or in the network is retried until the deadline, with
// increasing waits. A tag is the object's ETag.
#pragma once

#include <memory>

#include "weights/stores/object_store.h"
#include "weights/stores/s3_options.h"

namespace ingot::weights {

// Does not connect; CheckStore checks bucket and credentials.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Store(S3Options options, S3Credentials credentials);

}  // namespace ingot::weights
