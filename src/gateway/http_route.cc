#include "gateway/http_route.h"

#include <algorithm>

namespace ingot::gateway {
namespace {

constexpr size_t kMaxEpisodeId = 64;

// Replaces each %XX by the byte that it stands for. Other percent signs stay.
std::string PercentDecoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return decoded;
}

// Without the slashes that follow another one, or that end the path.
std::string CleanPath(std::string_view path) {
  std::string clean;
  for (const char c : path) {
    if (c != '/' || !clean.ends_with('/')) clean += c;
  }
  if (clean.size() > 1 && clean.ends_with('/')) clean.pop_back();
  return clean;
}

}  // namespace

HttpRoute HttpRoute::Of(std::string_view target, const Headers& headers) {
  if (const size_t scheme = target.find("://"); !target.starts_with('/') && scheme != std::string_view::npos) {
    const size_t authority = scheme + 3;  // the absolute form, which clients of proxies send
    target.remove_prefix(std::min(target.find_first_of("/?#", authority), target.size()));
  }
  const std::string clean = CleanPath(target.substr(0, target.find_first_of("?#")));
  std::string_view path = clean;
  HttpRoute route;
  route.dialect = &DefaultDialect(headers);
  if (!path.starts_with("/s/")) {
    route.Match(path);
    if (route.kind == Kind::kNone) route.MatchOwn(path);
    return route;
  }
  path.remove_prefix(3);
  const size_t end = std::min(path.find('/'), path.size());
  route.episode = std::string(path.substr(0, end));
  if (!route.episode.empty() && route.episode.size() <= kMaxEpisodeId) route.Match(path.substr(end));
  return route;
}

void HttpRoute::Set(Kind what, const char* how) {
  kind = what;
  method = how;
}

void HttpRoute::Match(std::string_view path) {
  constexpr std::string_view kModelPrefix = "/models/", kVersion = "/v1";
  for (int i = 0; i < 2 && (path == kVersion || path.starts_with("/v1/")); ++i) path.remove_prefix(kVersion.size());
  if (const Dialect* spoken = DialectAt(path)) {
    dialect = spoken;
    return Set(Kind::kDialect, "POST");
  }
  for (const Dialect* spoken : Dialects()) {  // a path below a dialect's own: not found, in its words
    if (path.starts_with(spoken->path()) && path[spoken->path().size()] == '/') dialect = spoken;
  }
  if (path.empty() || path == "/") return Set(Kind::kRoot, "HEAD");
  if (path == "/models") return Set(Kind::kModels, "GET");
  if (!path.starts_with(kModelPrefix)) return;
  name = PercentDecoded(path.substr(kModelPrefix.size()));
  Set(Kind::kModel, "GET");
}

void HttpRoute::MatchOwn(std::string_view path) {
  constexpr std::string_view kEpisodes = "/ingot/v1/episodes";
  if (path == "/healthz" || path == "/health") return Set(Kind::kHealth, "GET");
  if (path == "/version") return Set(Kind::kVersion, "GET");
  if (path == "/ingot/v1/status") return Set(Kind::kStatus, "GET");
  if (path == kEpisodes) return Set(Kind::kOpen, "POST");
  if (!path.starts_with(kEpisodes) || path[kEpisodes.size()] != '/') return;
  path.remove_prefix(kEpisodes.size() + 1);
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash > kMaxEpisodeId) return;
  episode = std::string(path.substr(0, slash));
  if (path.substr(slash) == "/reward") return Set(Kind::kReward, "POST");
  if (path.substr(slash) == "/end") return Set(Kind::kEnd, "POST");
}

}  // namespace ingot::gateway
