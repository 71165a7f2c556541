// The route of a request: the operation and the episode that its target names. Pure.
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
    kStatus,
    kHealth,
    kVersion
  };
  Kind kind = Kind::kNone;
  const char* method = "GET";
  const Dialect* dialect = nullptr;  // of kDialect; otherwise the dialect that words errors
  std::string episode;               // of /s/{episode} or /ingot/v1/episodes/{id}
  std::string path_key;              // of /s/{key}, for clients that can send no header
  std::string name;                  // the model's, of /v1/models/{name} and of paths like /v1/models/{name}:method
  std::string query;                 // after the question mark
  std::string key;                   // of the query's key=

  static HttpRoute Of(std::string_view target, const Headers& headers);

 private:
  void Set(Kind what, const char* how);
  bool RemoveVersion(std::string_view& path);
  void Match(std::string_view path);     // paths that exist at the root and in each episode
  void MatchOwn(std::string_view path);  // paths of /ingot, and those for operators
};

}  // namespace ingot::gateway
