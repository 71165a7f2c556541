#include "app/models/http_post.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/printable.h"
#include "base/secret.h"
#include "base/waits.h"
#include "http/client.h"
#include "http/site_check.h"

namespace ingot::app {
namespace {

constexpr char kJson[] = "application/json";

// Returns the reason why there is no response with status 200. Failure to get a response counts as transient.
absl::Status ErrorOf(const HttpPost& post, const absl::StatusOr<http::Answer>& answer) {
  const std::string url = base::Printable(base::WithoutKey(post.url, post.key), {.max_bytes = 200});
  if (answer.ok()) {
    const std::string body = base::Printable(base::WithoutKey(answer->body, post.key), {.max_bytes = 300});
    const std::string text = absl::StrCat(url, " answered ", answer->status, ": ", body);
    const bool may_pass = answer->status == 429 || answer->status >= 500;
    return may_pass ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
  }
  const absl::Status& why = answer.status();
  if (absl::IsDeadlineExceeded(why)) {
    return absl::DeadlineExceededError(absl::StrCat(url, " did not answer within ", post.timeout_s, " s"));
  }
  const bool is_ours = absl::IsCancelled(why) || absl::IsInvalidArgument(why);
  return base::Annotate(is_ours ? why : absl::UnavailableError(why.message()), url);
}

// Returns the number of seconds that the server requests (RFC 9110, section 10.2.3), or nullopt if there is none. Dates
// are not supported.
std::optional<double> RetryAfter(const http::Answer& answer) {
  const auto field = answer.headers.find("retry-after");
  double seconds = 0;
  if (field == answer.headers.end() || !absl::SimpleAtod(field->second, &seconds) || seconds < 0) return std::nullopt;
  return seconds;
}

// Returns false if the caller has stopped waiting.
bool Pause(const HttpPost& post, double seconds) {
  constexpr double kGlance = 0.1;
  for (double left = seconds; left > 0; left -= kGlance) {
    if (post.cancelled && post.cancelled()) return false;
    std::this_thread::sleep_for(base::FromSeconds(std::min(left, kGlance)));
  }
  return !(post.cancelled && post.cancelled());
}

absl::StatusOr<http::Answer> SendOnce(const HttpPost& post) {
  const base::Wait wait(absl::StrCat("an answer of ", base::View(http::HostOfUrl(post.url))), base::WaitKind::kWork);
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(base::FromSeconds(post.timeout_s));
  return http::Client().Send(
      {.url = post.url,
       .method = "POST",
       .headers = {{"Accept", kJson}, {"Connection", "close"}, {"Content-Type", kJson}, {"User-Agent", "ingot"}},
       .body = post.body,
       .key = post.key,
       .uses_proxies = true,
       .timeout = std::max(timeout, std::chrono::milliseconds(1)),
       .max_answer_bytes = post.max_answer_bytes,
       .cancelled = post.cancelled});
}

}  // namespace

absl::StatusOr<std::string> Post(const HttpPost& post) {
  double backoff = 1, waited = 0;
  absl::StatusOr<http::Answer> answer = SendOnce(post);
  while (answer.ok() && (answer->status == 429 || answer->status == 503)) {
    const double pause = RetryAfter(*answer).value_or(std::exchange(backoff, std::min(2 * backoff, 30.0)));
    if (waited + pause > post.limited_s) break;
    const base::Wait wait(absl::StrCat(base::View(http::HostOfUrl(post.url)), " to accept requests again"),
                          base::WaitKind::kWork);
    if (!Pause(post, pause)) return absl::CancelledError("nothing is waiting for the response anymore");
    waited += std::max(pause, 0.01);
    answer = SendOnce(post);
  }
  if (answer.ok() && answer->status == 200) return std::move(answer->body);
  return base::WithoutKey(ErrorOf(post, answer), post.key);
}

std::string ChatCompletionsUrl(const std::string& base) {
  return absl::StrCat(absl::StripSuffix(base, "/"), "/chat/completions");
}

}  // namespace ingot::app
