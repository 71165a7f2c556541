// Defines the options for accessing a bucket. Bind declares each key with its description and bounds.
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
  std::string endpoint;  // the bucket is the first component of the path
  std::string region = "us-east-1";
  std::string bucket;
  std::string prefix;
  std::string credentials_file;
  std::string ca;
  bool allow_plaintext = false;
  int64_t part_bytes = 16 << 20;
  int parallel = 4;
  int page_keys = 1000;                       // keys per page of a listing; 1 to 1000
  std::chrono::milliseconds deadline{60000};  // time limit for one call, including retries; > 0

  // Returns INVALID_ARGUMENT, naming the field, if a value is invalid.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, S3Options& options);

// S3 client credentials. Never logged.
struct S3Credentials {
  std::string key_id;
  std::string secret;
  std::string session_token;  // empty = none
};

// Reads the `default` profile from an AWS credentials file (aws_access_key_id, aws_secret_access_key,
// aws_session_token). Returns INVALID_ARGUMENT if other users can read the file or if the keys are missing. Errors do
// not include the content.
absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& path);

}  // namespace ingot::weights
