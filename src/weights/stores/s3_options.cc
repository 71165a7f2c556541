#include "weights/stores/s3_options.h"

#include <sys/stat.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/config.h"
#include "base/file.h"
#include "weights/stores/object_store.h"

namespace ingot::weights {
namespace {

constexpr double kMinPart = 5 << 20;  // S3's minimum
constexpr double kMaxPart = 1 << 30;

bool IsLoopback(absl::string_view endpoint) {
  for (const char* host : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    if (!absl::StartsWith(endpoint, host)) continue;
    const absl::string_view rest = endpoint.substr(absl::string_view(host).size());
    if (rest.empty() || rest.front() == ':' || rest.front() == '/') return true;
  }
  return false;
}

}  // namespace

void Bind(base::Schema& schema, S3Options& o) {
  schema.Field("endpoint", &o.endpoint, "URL of S3 or an S3-compatible server, https://HOST[:PORT]");
  schema.Field("region", &o.region, "the bucket's region");
  schema.Field("bucket", &o.bucket, "name of an existing bucket");
  schema.Field("prefix", &o.prefix, "prefix of the objects' keys, PREFIX/RUN/...; empty: RUN/...");
  schema.Field("credentials_file", &o.credentials_file,
               "file with aws_access_key_id and aws_secret_access_key, readable only by its owner; empty: the "
               "environment's AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN");
  schema.Field("ca", &o.ca, "PEM file with certificate authorities for the endpoint; empty: the system's");
  schema.Field("allow_plaintext", &o.allow_plaintext,
               "allow an http:// endpoint on another machine; only for private networks");
  schema.Field("part_bytes", &o.part_bytes, "size of one part of an upload and of one ranged read",
               base::InRange(kMinPart, kMaxPart));
  schema.Field("parallel", &o.parallel, "number of an object's parts that are transferred in parallel",
               base::InRange(1, 64));
}

absl::Status S3Options::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  const bool plain = absl::StartsWith(endpoint, "http://");
  if (!plain && !absl::StartsWith(endpoint, "https://")) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint is '", endpoint, "': https://HOST or https://HOST:PORT"));
  }
  if (endpoint.find_first_of("?#@ ") != std::string::npos || endpoint.back() == '/') {
    return absl::InvalidArgumentError(
        "endpoint must be https://HOST[:PORT], without credentials and without a trailing slash");
  }
  if (plain && !allow_plaintext && !IsLoopback(endpoint)) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint ", endpoint,
                     " is not TLS: weights would go over the network unencrypted; use https://, "
                     "or set allow_plaintext on a private network"));
  }
  if (bucket.empty() || !IsObjectKey(bucket) || absl::StrContains(bucket, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("bucket is '", bucket, "': it must be the name of a bucket"));
  }
  if (region.empty() || !IsObjectKey(region)) {
    return absl::InvalidArgumentError(absl::StrCat("region is '", region, "': it must be a name such as us-east-1"));
  }
  if (!prefix.empty() && !IsObjectKey(prefix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefix is '", prefix, "': use letters, digits, '.', '_', and '-', with '/' between words"));
  }
  if (page_keys < 1 || page_keys > 1000) {
    return absl::InvalidArgumentError(absl::StrCat("page_keys is ", page_keys, ": it must be 1 to 1000"));
  }
  if (deadline.count() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("deadline is ", deadline.count(), " ms: must be > 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& path) {
  struct stat what{};
  if (::stat(path.c_str(), &what) == 0 && (what.st_mode & 077) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " can be read by other users of this machine: run chmod 600 ", path));
  }
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path, 1 << 16));
  S3Credentials credentials;
  bool in_profile = true;  // a file without profiles counts as one profile
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view words = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(words, "[")) in_profile = words == "[default]";
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(words, absl::MaxSplits('=', 1));
    if (!in_profile) continue;
    const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
    const std::string value(absl::StripAsciiWhitespace(parts.second));
    if (key == "aws_access_key_id") credentials.key_id = value;
    if (key == "aws_secret_access_key") credentials.secret = value;
    if (key == "aws_session_token") credentials.session_token = value;
  }
  if (!credentials.key_id.empty() && !credentials.secret.empty()) return credentials;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has no aws_access_key_id and aws_secret_access_key in its profile [default]"));
}

}  // namespace ingot::weights
