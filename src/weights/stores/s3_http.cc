#include "weights/stores/s3_http.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/random.h"
#include "base/waits.h"

namespace ingot::weights {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{100}, kLongestWait{5000};
constexpr milliseconds kConnect{5000};
constexpr std::chrono::seconds kStalled{15};  // time without receiving a byte

}  // namespace

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
  std::map<std::string, std::string> headers = request.headers;
  headers["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD";
  if (!credentials_.session_token.empty()) headers["x-amz-security-token"] = credentials_.session_token;
  if (request.method == "PUT" || request.method == "POST") headers["Content-Type"] = "application/octet-stream";
  const std::string service = absl::StrCat("aws:amz:", options_.region, ":s3");
  absl::StatusOr<http::Answer> answer =
      client_.Send({.url = std::move(url),
                    .method = request.method,
                    .headers = std::move(headers),
                    .body = request.body,
                    .signature = http::RequestSignature{service, credentials_.key_id, credentials_.secret},
                    .ca = options_.ca,
                    .uses_proxies = true,
                    .asks_first = true,
                    .timeout = left,
                    .connect_timeout = std::min(left, kConnect),
                    .stall_timeout = kStalled,
                    .max_answer_bytes = request.max_answer});
  // A stalled connection may recover before the deadline.
  if (absl::IsDeadlineExceeded(answer.status())) return absl::UnavailableError(answer.status().message());
  if (!answer.ok()) return answer.status();
  return S3Answer{answer->status, std::move(answer->headers), std::move(answer->body), request.error_in_body};
}

absl::StatusOr<S3Answer> S3Http::Send(const S3Request& request, TimePoint deadline) {
  // Large objects take a long time on a slow connection.
  const base::Wait wait(absl::StrCat("S3 at ", options_.endpoint), base::WaitKind::kWork);
  for (milliseconds wait = kFirstWait;; wait = std::min(2 * wait, kLongestWait)) {
    absl::StatusOr<S3Answer> answer = SendOnce(request, deadline);
    const bool again = answer.ok() ? MayPass(*answer) : absl::IsUnavailable(answer.status());
    // Half of the delay is random, so that clients that failed together do not retry together.
    const milliseconds pause =
        wait / 2 + milliseconds(base::RandomSeed() % static_cast<uint64_t>(wait.count() / 2 + 1));
    if (!again || std::chrono::steady_clock::now() + pause >= deadline) return answer;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace ingot::weights
