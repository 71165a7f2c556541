#include "gateway/http/http_route.h"

#include <algorithm>

#include "gateway/episodes/episode_key.h"

namespace ingot::gateway {
namespace {

constexpr size_t kMaxEpisodeId = 64;
constexpr size_t kMaxPathKey = 256;  // the key may be followed by a role
constexpr std::string_view kVersions[] = {"/v1", "/v1beta", "/v1alpha", "/v1beta1"};

// Replaces each %XX with its byte. Other percent signs are kept.
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

// Removes repeated and trailing slashes.
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
    const size_t authority = scheme + 3;  // absolute form, which clients send to proxies
    target.remove_prefix(std::min(target.find_first_of("/?#", authority), target.size()));
  }
  target = target.substr(0, target.find('#'));
  const size_t question = std::min(target.find('?'), target.size());
  const std::string clean = CleanPath(target.substr(0, question));
  std::string_view path = clean;
  HttpRoute route;
  route.query = std::string(target.substr(std::min(question + 1, target.size())));
  route.key = PercentDecoded(QueryValue(route.query, "key"));
  route.dialect = route.key.empty() ? &DefaultDialect(headers) : &GenerateContentDialect();
  if (!path.starts_with("/s/")) {
    route.Match(path);
    if (route.kind == Kind::kNone) route.MatchOwn(path);
    return route;
  }
  path.remove_prefix(3);
  const size_t end = std::min(path.find('/'), path.size());
  const bool is_key = LooksLikeKey(path.substr(0, end));
  (is_key ? route.path_key : route.episode) =
      is_key ? PercentDecoded(path.substr(0, end)) : std::string(path.substr(0, end));
  if (end > 0 && end <= (is_key ? kMaxPathKey : kMaxEpisodeId)) route.Match(path.substr(end));
  return route;
}

void HttpRoute::Set(Kind what, const char* how) {
  kind = what;
  method = how;
}

// Removes the API version from the path. All versions except /v1 belong to Google's API.
bool HttpRoute::RemoveVersion(std::string_view& path) {
  const std::string_view version = path.substr(0, path.find('/', 1));
  if (std::find(std::begin(kVersions), std::end(kVersions), version) == std::end(kVersions)) return false;
  if (version != "/v1") dialect = &GenerateContentDialect();
  path.remove_prefix(version.size());
  return true;
}

void HttpRoute::Match(std::string_view path) {
  constexpr std::string_view kModelPrefix = "/models/";
  if (RemoveVersion(path)) RemoveVersion(path);
  if (path.starts_with("/projects/") || path.starts_with("/publishers/")) {  // Vertex AI model paths
    dialect = &GenerateContentDialect();
    if (const size_t at = path.find(kModelPrefix); at != std::string_view::npos) path.remove_prefix(at);
  }
  const std::string decoded = PercentDecoded(path);
  if (const Dialect* spoken = DialectAt(decoded, name)) {
    dialect = spoken;
    return Set(Kind::kDialect, "POST");
  }
  for (const Dialect* spoken : Dialects()) {  // a path below a dialect's path gets a 404 in that dialect's format
    if (path.starts_with(spoken->path()) && path[spoken->path().size()] == '/') dialect = spoken;
  }
  if (path.empty() || path == "/") return Set(Kind::kRoot, "HEAD");
  if (path == "/models") return Set(Kind::kModels, "GET");
  if (!path.starts_with(kModelPrefix)) return;
  name = decoded.substr(kModelPrefix.size());
  Set(Kind::kModel, "GET");
}

void HttpRoute::MatchOwn(std::string_view path) {
  constexpr std::string_view kEpisodes = "/ingot/v1/episodes";
  if (path == "/healthz" || path == "/health") return Set(Kind::kHealth, "GET");
  if (path == "/version") return Set(Kind::kVersion, "GET");
  if (path == "/v1/feedback") return Set(Kind::kFeedback, "POST");
  if (path == "/ingot/v1/status") return Set(Kind::kStatus, "GET");
  if (path == kEpisodes) return Set(Kind::kOpen, "POST");
  if (!path.starts_with(kEpisodes) || path[kEpisodes.size()] != '/') return;
  path.remove_prefix(kEpisodes.size() + 1);
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash > kMaxEpisodeId) return;
  episode = std::string(path.substr(0, slash));
  if (path.substr(slash) == "/reward") return Set(Kind::kReward, "POST");
  if (path.substr(slash) == "/end") return Set(Kind::kEnd, "POST");
  if (path.substr(slash) == "/snapshots") return Set(Kind::kSnapshot, "POST");
  if (path.substr(slash) == "/files") return Set(Kind::kFiles, "GET");
}

}  // namespace ingot::gateway
