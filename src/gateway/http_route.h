// What a request's target names. Pure.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/dialect.h"

namespace ingot::gateway {

struct HttpRoute {
  enum class Kind { kNone, kDialect, kRoot, kModels, kModel, kOpen, kReward, kEnd, kStatus, kHealth, kMetrics };
  Kind kind = Kind::kNone;
  const char* method = "GET";
  const Dialect* dialect = nullptr;  // of kDialect; otherwise what errors are worded in
  std::string episode;               // of /s/{episode} or /ingot/v1/episodes/{id}
  std::string name;                  // of /v1/models/{name}

  static HttpRoute Of(std::string_view target, const Headers& headers);

 private:
  void Set(Kind what, const char* how);
  void Match(std::string_view path);  // what is served at the root and in each episode
  void MatchOwn(std::string_view path);
};

}  // namespace ingot::gateway
