#include "weights/s3_http.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/random.h"
#include "base/waits.h"
#include "http/curl_parts.h"

namespace ingot::weights {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{100}, kLongestWait{5000};
constexpr milliseconds kConnect{5000};
constexpr long kStalledSeconds = 15;  // without a byte

struct Received {
  http::AnswerHead head;
  S3Answer answer;
  int64_t max_bytes = 0;
  bool too_large = false;
};

size_t OnBody(char* data, size_t size, size_t count, void* context) {
  auto& received = *static_cast<Received*>(context);
  const size_t bytes = size * count;
  received.too_large = std::ssize(received.answer.body) + static_cast<int64_t>(bytes) > received.max_bytes;
  if (received.too_large) return 0;
  received.answer.body.append(data, bytes);
  return bytes;
}

size_t OnHeader(char* data, size_t size, size_t count, void* context) {
  static_cast<Received*>(context)->head.Add({data, size * count});
  return size * count;
}

bool IsTrustFailure(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR;
}

}  // namespace

struct S3Http::Handle {
  CURL* curl = nullptr;
};

S3Http::S3Http(const S3Options& options, S3Credentials credentials)
    : options_(options), credentials_(std::move(credentials)) {
  http::InitCurl();
}

S3Http::~S3Http() {
  for (Handle* handle : idle_) {
    curl_easy_cleanup(handle->curl);
    delete handle;
  }
}

S3Http::Handle* S3Http::Take() {
  {
    base::MutexLock lock(mu_);
    if (!idle_.empty()) {
      Handle* const handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  return new Handle{curl_easy_init()};
}

void S3Http::Return(Handle* handle) {
  curl_easy_reset(handle->curl);  // keeps the connection, and drops the credentials' copies
  base::MutexLock lock(mu_);
  idle_.push_back(handle);
}

std::string S3Http::Encode(std::string_view value) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const unsigned char c : value) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded.push_back(static_cast<char>(c));
    } else {
      encoded.append({'%', kDigits[c >> 4], kDigits[c & 15]});
    }
  }
  return encoded;
}

absl::StatusOr<S3Answer> S3Http::SendOnce(const S3Request& request, TimePoint deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return absl::DeadlineExceededError("the deadline has passed");
  std::string url = absl::StrCat(options_.endpoint, "/", options_.bucket);
  if (!request.path.empty()) absl::StrAppend(&url, "/", request.path);
  if (!request.query.empty()) absl::StrAppend(&url, "?", request.query);
  http::CurlHeaders headers;
  headers.Add("x-amz-content-sha256: UNSIGNED-PAYLOAD");
  if (!credentials_.session_token.empty()) headers.Add("x-amz-security-token: " + credentials_.session_token);
  for (const std::string& line : request.headers) headers.Add(line);
  const bool has_body = request.method == "PUT" || request.method == "POST";
  if (has_body) headers.Add("Content-Type: application/octet-stream");

  Received received;
  received.max_bytes = request.max_answer;
  Handle* const handle = Take();
  CURL* const curl = handle->curl;
  const std::string signing = absl::StrCat("aws:amz:", options_.region, ":s3");
  char reason[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signing.c_str());
  curl_easy_setopt(curl, CURLOPT_USERNAME, credentials_.key_id.c_str());
  curl_easy_setopt(curl, CURLOPT_PASSWORD, credentials_.secret.c_str());
  if (has_body) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 300L);
  }
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  if (!options_.ca.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::min(left, kConnect).count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &received);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, &reason[0]);
  const CURLcode code = curl_easy_perform(curl);
  Return(handle);
  if (received.too_large) return absl::ResourceExhaustedError("the answer is larger than it may be");
  if (code == CURLE_OK) {
    received.answer.http = received.head.status;
    received.answer.headers = std::move(received.head.headers);
    received.answer.error_in_body = request.error_in_body;
    return std::move(received.answer);
  }
  const std::string why = reason[0] == '\0' ? curl_easy_strerror(code) : &reason[0];
  return IsTrustFailure(code) ? absl::PermissionDeniedError(why) : absl::UnavailableError(why);
}

absl::StatusOr<S3Answer> S3Http::Send(const S3Request& request, TimePoint deadline) {
  // Large objects take their time on a slow line.
  const base::Wait wait(absl::StrCat("S3 at ", options_.endpoint), base::WaitKind::kWork);
  for (milliseconds wait = kFirstWait;; wait = std::min(2 * wait, kLongestWait)) {
    absl::StatusOr<S3Answer> answer = SendOnce(request, deadline);
    const bool again = answer.ok() ? MayPass(*answer) : absl::IsUnavailable(answer.status());
    // Half of the wait is drawn, so that clients which failed together do not come back together.
    const milliseconds pause =
        wait / 2 + milliseconds(base::RandomSeed() % static_cast<uint64_t>(wait.count() / 2 + 1));
    if (!again || std::chrono::steady_clock::now() + pause >= deadline) return answer;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace ingot::weights
