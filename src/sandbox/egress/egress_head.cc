#include "sandbox/egress/egress_head.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace ingot::sandbox {
namespace {

constexpr std::string_view kScheme = "http://";
// Headers that apply to one connection rather than to the request.
constexpr std::array<std::string_view, 8> kOfConnection = {
    "connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"};

absl::Status Wrong(const char* what) { return absl::InvalidArgumentError(what); }

bool HasControls(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_iscntrl(c) && c != '\t'; });
}

// Returns the headers that are sent to the host.
absl::StatusOr<std::string> HeadersOf(const std::vector<std::string>& lines) {
  std::string headers;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const size_t colon = lines[i].find(':');
    if (colon == 0 || colon == std::string::npos || absl::ascii_isspace(static_cast<unsigned char>(lines[i][0])) ||
        HasControls(lines[i])) {
      return Wrong("the request has a malformed header");
    }
    const std::string name = absl::AsciiStrToLower(lines[i].substr(0, colon));
    const std::string value(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) {
      return Wrong("the request has a body; only GET, HEAD, and CONNECT are allowed");
    }
    if (name == "content-length" || std::find(kOfConnection.begin(), kOfConnection.end(), name) != kOfConnection.end())
      continue;
    absl::StrAppend(&headers, lines[i], "\r\n");
  }
  return headers;
}

}  // namespace

absl::StatusOr<EgressRequest> ParseEgressHead(std::string_view head) {
  const std::vector<std::string> lines = absl::StrSplit(base::View(head), "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !words[2].starts_with("HTTP/1.") || HasControls(lines[0]))
    return Wrong("not an HTTP/1 request");
  EgressRequest request;
  const std::string& target = words[1];
  if (words[0] == "CONNECT") {
    request.is_tunnel = true;
    INGOT_ASSIGN_OR_RETURN(request.host, ParseHostPort(target));
    return request;
  }
  if (words[0] != "GET" && words[0] != "HEAD")
    return absl::UnimplementedError("only GET, HEAD, and CONNECT are allowed");
  if (!absl::AsciiStrToLower(target.substr(0, kScheme.size())).starts_with(kScheme))
    return Wrong("the request's target does not begin with http://HOST");
  const std::string rest = target.substr(kScheme.size());
  const size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  std::string authority = rest.substr(0, slash);
  if (authority.find('@') != std::string::npos) return Wrong("the request's target contains a user name");
  if (authority.rfind(':') == std::string::npos || authority.ends_with(']')) authority += ":80";
  INGOT_ASSIGN_OR_RETURN(request.host, ParseHostPort(authority));
  INGOT_ASSIGN_OR_RETURN(const std::string headers, HeadersOf(lines));
  const std::string path = rest.substr(slash);
  const std::string named =
      request.host.port == 80 ? Text(request.host).substr(0, Text(request.host).size() - 3) : Text(request.host);
  request.head = absl::StrCat(words[0], " ", path.starts_with('/') ? "" : "/", path, " ", words[2], "\r\nHost: ", named,
                              "\r\n", headers, "Connection: close\r\n\r\n");
  return request;
}

}  // namespace ingot::sandbox
