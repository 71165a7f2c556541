// Implements ObjectStore in an S3 bucket, or on a compatible server with conditional PUT (If-Match, If-None-Match).
//
// libcurl signs requests (AWS Signature 4). Objects larger than part_bytes are uploaded in parts and read in ranges,
// `parallel` at a time. Requests that fail because of the server or the network are retried with increasing delays
// until the deadline. A tag is the object's ETag.
#pragma once

#include <memory>

#include "weights/stores/object_store.h"
#include "weights/stores/s3_options.h"

namespace ingot::weights {

// Does not connect. CheckStore checks the bucket and the credentials.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Store(S3Options options, S3Credentials credentials);

}  // namespace ingot::weights
