#include "weights/stores/s3_store.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "weights/stores/s3_http.h"

namespace ingot::weights {
namespace {

constexpr int64_t kMaxParts = 9000;  // S3 accepts 10,000 parts per upload
constexpr int kChanges = 5;          // changes to an object during a read before the reader gives up

class S3Store final : public ObjectStore {
 public:
  S3Store(const S3Options& options, S3Credentials credentials)
      : options_(options), http_(options, std::move(credentials)) {}

  absl::Status Put(const std::string& key, std::string_view bytes) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    const auto deadline = Deadline();
    if (std::ssize(bytes) > options_.part_bytes) return At(key, PutInParts(key, bytes, deadline));
    return At(key, Ask({.method = "PUT", .path = PathOf(key), .query = "", .body = bytes}, deadline).status());
  }

  absl::StatusOr<StoredObject> Get(const std::string& key, int64_t max_bytes) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    const auto deadline = Deadline();
    for (int change = 1;; ++change) {
      absl::StatusOr<StoredObject> object = GetInRanges(key, max_bytes, deadline);
      // Another object replaced it between two ranges.
      if (absl::IsAborted(object.status()) && change < kChanges) continue;
      if (absl::IsAborted(object.status()))
        return At(key, absl::UnavailableError("it changed while it was being read"));
      if (!object.ok()) return At(key, object.status());
      return object;
    }
  }

  absl::StatusOr<std::string> Swap(const std::string& key, std::string_view bytes, const std::string& tag) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    S3Request request{.method = "PUT", .path = PathOf(key), .query = "", .body = bytes};
    request.headers[tag.empty() ? "If-None-Match" : "If-Match"] = tag.empty() ? "*" : tag;
    const absl::StatusOr<S3Answer> answer = Ask(request, Deadline());
    // With If-Match, a missing object is also a mismatch.
    if (absl::IsAborted(answer.status()) || absl::IsNotFound(answer.status())) {
      return At(key, absl::AbortedError("another writer changed it"));
    }
    if (!answer.ok()) return At(key, answer.status());
    std::string written = answer->Header("etag");
    if (written.empty()) return At(key, absl::InternalError("the server returned no ETag"));
    return written;
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& prefix) override {
    const auto deadline = Deadline();
    const std::string begin = options_.prefix.empty() ? "" : options_.prefix + "/";
    std::vector<std::string> keys;
    std::string token;
    do {
      S3Request request{.method = "GET", .path = "", .query = ""};
      if (!token.empty()) request.query = absl::StrCat("continuation-token=", S3Http::Encode(token), "&");
      absl::StrAppend(&request.query, "list-type=2&max-keys=", options_.page_keys,
                      "&prefix=", S3Http::Encode(begin + prefix));
      request.max_answer = 16 << 20;
      const absl::StatusOr<S3Answer> page = Ask(request, deadline);
      if (!page.ok()) return At(prefix, page.status());
      for (const std::string& key : XmlTexts(page->body, "Key")) {
        if (key.starts_with(begin)) keys.push_back(key.substr(begin.size()));
      }
      const bool more = XmlText(page->body, "IsTruncated") == "true";
      token = more ? XmlText(page->body, "NextContinuationToken") : "";
    } while (!token.empty());
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  absl::Status Delete(const std::string& key) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    const absl::Status deleted = Ask({.method = "DELETE", .path = PathOf(key), .query = ""}, Deadline()).status();
    return absl::IsNotFound(deleted) ? absl::OkStatus() : At(key, deleted);
  }

  std::string Describe() const override {
    return absl::StrCat("bucket ", options_.bucket, " at ", options_.endpoint,
                        options_.prefix.empty() ? "" : absl::StrCat(", prefix ", options_.prefix));
  }

 private:
  using TimePoint = S3Http::TimePoint;

  TimePoint Deadline() const { return std::chrono::steady_clock::now() + options_.deadline; }

  std::string PathOf(const std::string& key) const {
    return options_.prefix.empty() ? key : absl::StrCat(options_.prefix, "/", key);
  }

  static absl::Status CheckKey(const std::string& key) {
    if (IsObjectKey(key)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' is not a valid object key"));
  }

  absl::Status At(const std::string& key, const absl::Status& status) const {
    return base::Annotate(status, absl::StrCat(Describe(), ": object '", key, "'"));
  }

  // Returns a response that is not an error.
  absl::StatusOr<S3Answer> Ask(const S3Request& request, TimePoint deadline) {
    INGOT_ASSIGN_OR_RETURN(S3Answer answer, http_.Send(request, deadline));
    INGOT_RETURN_IF_ERROR(ErrorOf(answer, options_));
    return answer;
  }

  // Runs `task` for 0 to count - 1, options_.parallel at a time. Starts no more tasks after an error.
  absl::Status ForParts(int64_t count, const std::function<absl::Status(int64_t)>& task) const {
    std::atomic<int64_t> next = 0;
    std::atomic<bool> failed = false;
    std::vector<absl::Status> results(static_cast<size_t>(std::min<int64_t>(count, options_.parallel)));
    std::vector<std::thread> threads;
    for (absl::Status& result : results) {
      threads.emplace_back([&] {
        for (int64_t part = next++; part < count && !failed; part = next++) {
          result = task(part);
          if (!result.ok()) failed = true;
          if (failed) return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& result : results) INGOT_RETURN_IF_ERROR(result);
    return absl::OkStatus();
  }

  absl::Status PutInParts(const std::string& key, std::string_view bytes, TimePoint deadline) {
    const std::string path = PathOf(key);
    INGOT_ASSIGN_OR_RETURN(const S3Answer begun, Ask({.method = "POST", .path = path, .query = "uploads="}, deadline));
    const std::string id = XmlText(begun.body, "UploadId");
    if (id.empty()) return absl::InternalError("the server returned no id for a multipart upload");
    const std::string upload = "uploadId=" + S3Http::Encode(id);
    const absl::Status put = PutParts(path, upload, bytes, deadline);
    if (put.ok()) return put;
    // Leftover parts cost money. A lifecycle rule on the bucket should delete parts left by crashed clients.
    const absl::Status aborted =
        Ask({.method = "DELETE", .path = path, .query = upload}, std::max(deadline, Deadline())).status();
    if (!aborted.ok()) INGOT_LOG(warn, "cannot remove the parts of a failed upload: {}", At(key, aborted).ToString());
    return put;
  }

  absl::Status PutParts(const std::string& path, const std::string& upload, std::string_view bytes,
                        TimePoint deadline) {
    const int64_t size = std::ssize(bytes);
    const int64_t part_bytes = std::max(options_.part_bytes, size / kMaxParts + 1);
    const int64_t parts = (size + part_bytes - 1) / part_bytes;
    std::vector<std::string> tags(static_cast<size_t>(parts));
    INGOT_RETURN_IF_ERROR(ForParts(parts, [&](int64_t part) -> absl::Status {
      const std::string query = absl::StrCat("partNumber=", part + 1, "&", upload);
      const std::string_view body =
          bytes.substr(static_cast<size_t>(part * part_bytes), static_cast<size_t>(part_bytes));
      INGOT_ASSIGN_OR_RETURN(const S3Answer answer,
                             Ask({.method = "PUT", .path = path, .query = query, .body = body}, deadline));
      tags[static_cast<size_t>(part)] = answer.Header("etag");
      return absl::OkStatus();
    }));
    std::string list = "<CompleteMultipartUpload>";
    for (int64_t part = 0; part < parts; ++part) {
      absl::StrAppend(&list, "<Part><PartNumber>", part + 1, "</PartNumber><ETag>", tags[static_cast<size_t>(part)],
                      "</ETag></Part>");
    }
    list += "</CompleteMultipartUpload>";
    return Ask({.method = "POST", .path = path, .query = upload, .body = list, .error_in_body = true}, deadline)
        .status();
  }

  // Returns ABORTED if the object changed in the meantime.
  absl::StatusOr<StoredObject> GetInRanges(const std::string& key, int64_t max_bytes, TimePoint deadline) {
    const auto range = [&](int64_t first) {
      S3Request request{.method = "GET", .path = PathOf(key), .query = ""};
      request.headers["Range"] = absl::StrCat("bytes=", first, "-", first + options_.part_bytes - 1);
      request.max_answer = options_.part_bytes;
      return request;
    };
    INGOT_ASSIGN_OR_RETURN(S3Answer first, http_.Send(range(0), deadline));
    StoredObject object;
    if (first.http == 416) {  // an empty object has no byte 0
      INGOT_ASSIGN_OR_RETURN(first, Ask({.method = "GET", .path = PathOf(key), .query = ""}, deadline));
    }
    INGOT_RETURN_IF_ERROR(ErrorOf(first, options_));
    object.tag = first.Header("etag");
    object.bytes = std::move(first.body);
    const int64_t got = std::ssize(object.bytes);
    const int64_t whole = first.http == 206 ? WholeBytes(first).value_or(got) : got;
    if (whole > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("it has ", whole, " bytes; the limit is ", max_bytes));
    }
    if (whole <= got) return object;
    object.bytes.resize(static_cast<size_t>(whole));
    const int64_t parts = (whole - got + options_.part_bytes - 1) / options_.part_bytes;
    INGOT_RETURN_IF_ERROR(ForParts(parts, [&](int64_t part) -> absl::Status {
      const int64_t at = got + part * options_.part_bytes;
      S3Request request = range(at);
      request.headers["If-Match"] = object.tag;
      INGOT_ASSIGN_OR_RETURN(const S3Answer answer, Ask(request, deadline));
      const int64_t expected = std::min(options_.part_bytes, whole - at);
      if (std::ssize(answer.body) != expected) return absl::UnavailableError("a range was truncated");
      std::copy(answer.body.begin(), answer.body.end(), object.bytes.begin() + at);
      return absl::OkStatus();
    }));
    return object;
  }

  const S3Options options_;
  S3Http http_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Store(S3Options options, S3Credentials credentials) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (credentials.key_id.empty() || credentials.secret.empty()) {
    return absl::InvalidArgumentError("no credentials for the bucket");
  }
  return std::make_unique<S3Store>(options, std::move(credentials));
}

}  // namespace ingot::weights
