#include "app/models/http_post.h"

#include <algorithm>
#include <chrono>
#include <utility>

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

// Why there is no answer with status 200. Failures to get an answer count as transient.
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

}  // namespace

absl::StatusOr<std::string> Post(const HttpPost& post) {
  const base::Wait wait(absl::StrCat("an answer of ", base::View(http::HostOfUrl(post.url))), base::WaitKind::kWork);
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(base::FromSeconds(post.timeout_s));
  absl::StatusOr<http::Answer> answer = http::Client().Send(
      {.url = post.url,
       .method = "POST",
       .headers = {{"Accept", kJson}, {"Connection", "close"}, {"Content-Type", kJson}, {"User-Agent", "ingot"}},
       .body = post.body,
       .key = post.key,
       .timeout = std::max(timeout, std::chrono::milliseconds(1)),
       .max_answer_bytes = post.max_answer_bytes,
       .cancelled = post.cancelled});
  if (answer.ok() && answer->status == 200) return std::move(answer->body);
  return base::WithoutKey(ErrorOf(post, answer), post.key);
}

std::string ChatCompletionsUrl(const std::string& base) {
  return absl::StrCat(absl::StripSuffix(base, "/"), "/chat/completions");
}

}  // namespace ingot::app
