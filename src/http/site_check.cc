#include "http/site_check.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "absl/strings/ascii.h"
#include "base/printable.h"
#include "base/status.h"

namespace ingot::http {
namespace {

constexpr char kAny[] = "*";
constexpr size_t kMaxShown = 100;

// Returns hosts as people write them, with or without a scheme and a port.
std::vector<std::string> HostsOf(const std::vector<std::string>& names) {
  std::vector<std::string> hosts;
  for (const std::string& name : names) hosts.emplace_back(HostOfUrl(absl::AsciiStrToLower(name)));
  return hosts;
}

std::vector<std::string> OriginsOf(const std::vector<std::string>& names) {
  std::vector<std::string> origins;
  for (const std::string& name : names) {
    origins.push_back(absl::AsciiStrToLower(name));
    if (origins.back().ends_with('/')) origins.back().pop_back();
  }
  return origins;
}

bool Has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool IsAddress(std::string_view host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(host), error);
  return !error;
}

}  // namespace

std::string_view HostOf(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, std::min(authority.find(']'), authority.size()) - 1);
  if (std::count(authority.begin(), authority.end(), ':') > 1) return authority;  // an IPv6 address without brackets
  std::string_view host = authority.substr(0, authority.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

std::string_view HostOfUrl(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
  return HostOf(authority.substr(authority.rfind('@') + 1));  // drops the user; npos + 1 is 0
}

SiteCheck::SiteCheck(const Options& options)
    : hosts_(HostsOf(options.allow_hosts)), origins_(OriginsOf(options.allow_origins)) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(options.host, error);
  const bool is_file = !options.unix_socket.empty();  // browsers cannot open one
  checks_hosts_ = !is_file && !error && address.is_loopback() && !Has(hosts_, kAny);
  checks_origins_ = !is_file && !Has(origins_, kAny);
}

bool SiteCheck::IsOwn(std::string_view host) const {
  static const std::vector<std::string> loopback = {"localhost", "localhost.localdomain", "ip6-localhost",
                                                    "ip6-loopback"};
  return Has(loopback, host) || host.ends_with(".localhost") || Has(hosts_, host) || IsAddress(host);
}

std::optional<Rejection> SiteCheck::Check(const RequestHead& head) const {
  const std::string authority = absl::AsciiStrToLower(base::View(head.Find("host")));
  if (checks_hosts_ && !authority.empty() && !IsOwn(HostOf(authority))) {
    return Rejection{403, "unknown_host",
                     absl::StrCat("the request's Host is '", base::Printable(authority, {.max_bytes = kMaxShown}),
                                  "', but this server accepts only localhost, IP addresses, and its allowed hosts "
                                  "(http.allow_hosts of a run, --allow-host of a command)")};
  }
  const std::string origin = absl::AsciiStrToLower(base::View(head.Find("origin")));
  if (!checks_origins_ || origin.empty() || Has(origins_, origin)) return std::nullopt;
  const size_t scheme = origin.find("://");
  if (scheme != std::string::npos && std::string_view(origin).substr(scheme + 3) == authority) return std::nullopt;
  return Rejection{403, "cross_origin",
                   absl::StrCat("the request comes from a page of '", base::Printable(origin, {.max_bytes = kMaxShown}),
                                "', which is neither this server's origin nor an allowed one (http.allow_origins of a "
                                "run, --allow-origin of a command)")};
}

}  // namespace ingot::http
