#include "weights/stores/s3_answer.h"

#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "base/printable.h"

namespace ingot::weights {
namespace {

template <size_t N>
bool IsOneOf(const std::string& code, const std::array<const char*, N>& codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

constexpr std::array<const char*, 4> kOfRegion = {"AuthorizationHeaderMalformed", "PermanentRedirect",
                                                  "IllegalLocationConstraintException", "TemporaryRedirect"};
constexpr std::array<const char*, 5> kOfCredentials = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
                                                       "InvalidToken", "TokenRefreshRequired"};
constexpr std::array<const char*, 6> kOfTheMoment = {"RequestTimeout",     "SlowDown",   "InternalError",
                                                     "ServiceUnavailable", "Throttling", "ConditionalRequestConflict"};

// An object may contain any bytes, even an error's XML.
bool Succeeded(const S3Answer& answer) {
  const bool accepted = answer.http >= 200 && answer.http < 300;
  return accepted && (!answer.error_in_body || answer.body.find("<Error>") == std::string::npos);
}

std::string Said(const S3Answer& answer) {
  const std::string code = XmlText(answer.body, "Code"), message = XmlText(answer.body, "Message");
  base::PrintableOptions printable;
  printable.max_bytes = 300;
  return absl::StrCat("HTTP ", answer.http, code.empty() ? "" : " ", base::Printable(code, printable),
                      message.empty() ? "" : ": ", base::Printable(message, printable));
}

}  // namespace

std::string S3Answer::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::vector<std::string> XmlTexts(std::string_view xml, const std::string& name) {
  const std::string open = absl::StrCat("<", name, ">"), close = absl::StrCat("</", name, ">");
  std::vector<std::string> texts;
  for (size_t at = 0; (at = xml.find(open, at)) != std::string_view::npos;) {
    at += open.size();
    const size_t end = xml.find(close, at);
    if (end == std::string_view::npos) break;
    texts.emplace_back(xml.substr(at, end - at));
    at = end;
  }
  return texts;
}

std::string XmlText(std::string_view xml, const std::string& name) {
  const std::vector<std::string> texts = XmlTexts(xml, name);
  return texts.empty() ? "" : texts.front();
}

bool MayPass(const S3Answer& answer) {
  if (Succeeded(answer)) return false;
  const std::string code = XmlText(answer.body, "Code");
  return answer.http >= 500 || answer.http == 429 || IsOneOf(code, kOfTheMoment);
}

absl::Status ErrorOf(const S3Answer& answer, const S3Options& options) {
  if (Succeeded(answer)) return absl::OkStatus();
  const std::string code = XmlText(answer.body, "Code"), said = Said(answer);
  if (MayPass(answer)) return absl::UnavailableError(said);
  if (code == "NoSuchBucket") {
    return absl::FailedPreconditionError(absl::StrCat("the server has no bucket '", options.bucket,
                                                      "': create it, or correct weights.s3.bucket (", said, ")"));
  }
  std::string region = answer.Header("x-amz-bucket-region");
  if (region.empty()) region = XmlText(answer.body, "Region");
  const bool elsewhere = !region.empty() && region != options.region && answer.http != 404 && answer.http != 412;
  if (IsOneOf(code, kOfRegion) || answer.http == 301 || answer.http == 307 || elsewhere) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the bucket is not in region '", options.region, "' or not at this endpoint: set weights.s3.region ",
        region.empty() ? "" : absl::StrCat("to '", base::Printable(region), "' "), "or weights.s3.endpoint (", said,
        ")"));
  }
  if (code == "RequestTimeTooSkewed") {
    return absl::PermissionDeniedError(absl::StrCat("this machine's clock differs too much from the server's: ", said));
  }
  if (IsOneOf(code, kOfCredentials) || answer.http == 401) {
    return absl::PermissionDeniedError(absl::StrCat("the server rejected the credentials: ", said));
  }
  if (answer.http == 403) {
    return absl::PermissionDeniedError(
        absl::StrCat("the credentials do not permit this: they must allow reading, writing, listing, and deleting the "
                     "bucket's objects (",
                     said, ")"));
  }
  if (answer.http == 404) return absl::NotFoundError(said);
  if (answer.http == 412) return absl::AbortedError(said);
  if (answer.http == 400) return absl::InvalidArgumentError(said);
  return absl::InternalError(absl::StrCat("unexpected response, not S3's: ", said));
}

std::optional<int64_t> WholeBytes(const S3Answer& answer) {
  const std::string range = answer.Header("content-range");  // bytes FIRST-LAST/WHOLE
  const size_t slash = range.rfind('/');
  int64_t whole = 0;
  if (slash == std::string::npos || !absl::SimpleAtoi(range.substr(slash + 1), &whole)) return std::nullopt;
  return whole;
}

}  // namespace ingot::weights
