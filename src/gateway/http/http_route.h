// Finds the operation and the episode in a request target. Pure.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/dialect.h"

namespace ingot::gateway {

struct HttpRoute {
  enum class Kind {
    kNone,
    kDialect,
    kRoot,
    kModels,
    kModel,
    kOpen,
    kReward,
    kEnd,
    kSnapshot,
    kFiles,
    kFeedback,
    kStatus,
    kHealth,
    kVersion
  };
  Kind kind = Kind::kNone;
  const char* method = "GET";
  const Dialect* dialect = nullptr;  // kDialect's dialect; otherwise, the dialect that formats errors
  std::string episode;               // {episode} in /s/{episode} or {id} in /ingot/v1/episodes/{id}
  std::string path_key;              // {key} in /s/{key}, for clients that cannot send headers
  std::string name;                  // model name in /v1/models/{name} and in paths like /v1/models/{name}:method
  std::string query;                 // text after the question mark
  std::string key;                   // value of key= in the query string

  static HttpRoute Of(std::string_view target, const Headers& headers);

 private:
  void Set(Kind what, const char* how);
  bool RemoveVersion(std::string_view& path);
  void Match(std::string_view path);     // paths that exist at the root and in each episode
  void MatchOwn(std::string_view path);  // paths under /ingot, and paths for operators
};

}  // namespace ingot::gateway
