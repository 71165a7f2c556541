// Where a bucket is, and how to use it. Bind declares each key with its meaning and bounds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::weights {

struct S3Options {
  std::string endpoint;  // the bucket is the first word of the path
  std::string region = "us-east-1";
  std::string bucket;
  std::string prefix;
  std::string credentials_file;
  std::string ca;
  bool allow_plaintext = false;
  int64_t part_bytes = 16 << 20;
  int parallel = 4;
  int page_keys = 1000;                       // keys of one page of a listing; 1 to 1000
  std::chrono::milliseconds deadline{60000};  // of one call, retries included; > 0

  // INVALID_ARGUMENT names the field.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, S3Options& options);

// The credentials of an S3 client. Never logged.
struct S3Credentials {
  std::string key_id;
  std::string secret;
  std::string session_token;  // empty = none
};

// Reads the profile `default` of a credentials file of AWS's tools (aws_access_key_id, aws_secret_access_key,
// aws_session_token). INVALID_ARGUMENT: other users may read it, or it lacks the keys; the error shows no content.
absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& path);

}  // namespace ingot::weights
