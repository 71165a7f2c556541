#include "http/curl_parts.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "base/status.h"

namespace ingot::http {

void InitCurl() {
  static const CURLcode made = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)made;
}

// The first header makes the list; later ones leave its head as it is.
void CurlHeaders::Add(const std::string& line) { list_.reset(curl_slist_append(list_.release(), line.c_str())); }

bool AnswerHead::Add(std::string_view line) {
  const size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    *this = {};
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) status = std::atoi(std::string(line.substr(space + 1, 3)).c_str());
  } else if (colon != std::string_view::npos) {
    const std::string name = absl::AsciiStrToLower(std::string(line.substr(0, colon)));
    headers[name] = std::string(absl::StripAsciiWhitespace(base::View(line.substr(colon + 1))));
  } else {
    return true;
  }
  return false;
}

}  // namespace ingot::http
