// Requests that were read before. An agent sends its whole history with every call, and nearly all of a body is what
// the body before it was: where a body differs from a known one in nothing but the end of its list of messages, only
// the messages that differ are parsed and read, and the others are those of the known request, shared with all that has
// been made of them (text/shared_list.h). How many elements a message is of, its dialect knows
// (GatewayRequest::elements). Where other fields differ too, these are read anew, without the list.
//
//   known   {"model":"m","messages":[{A},{B}],"tools":[T]}
//   body    {"model":"m","messages":[{A},{B},{C},{D}],"tools":[T]}       -> the known request, and {C},{D}
//
// Nothing is guessed: bytes are compared, and equal bytes read equal.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "gateway/request.h"

namespace ingot::gateway {

// Where a list stands in a body.
struct ListPlace {
  size_t begin = 0;               // behind its bracket
  std::vector<size_t> ends = {};  // per element: where it ends; the first begins with the list, others with a comma
};

struct KnownRequest {
  std::string episode = {};  // its id
  std::string body = {};
  ListPlace list = {};
  std::shared_ptr<const GatewayRequest> request = nullptr;

  int64_t bytes() const;  // about what it holds, with what is made of its messages
};

// The list under `field` of a body, which is a JSON object. nullopt: there is no such list, it is empty, or the body is
// written so that which list it is cannot be told by its bytes alone.
std::optional<ListPlace> FindList(std::string_view body, std::string_view field);

// What of a body is a known one's, and what is not.
struct RequestChange {
  size_t kept = 0;          // elements of the list that are as they were, at least one
  base::json::array added;  // those behind them
  ListPlace list;           // in the body
  std::string rest;         // the body with an empty list, if that differs too; empty: it does not
};
// `field`: of the list in both. nullopt: it begins with another element, or which list it is cannot be told.
std::optional<RequestChange> FindChange(const KnownRequest& known, std::string_view body, std::string_view field);

// The newest request of each caller, as long as they are not too large together; then the one that was not asked for
// the longest is forgotten. Thread safe.
class KnownRequests {
 public:
  explicit KnownRequests(int64_t max_bytes) : max_bytes_(max_bytes) {}

  std::shared_ptr<const KnownRequest> Find(const std::string& caller) ABSL_LOCKS_EXCLUDED(mu_);
  // What is not kept any more. A long conversation takes a millisecond to be freed: the caller says when.
  using Forgotten = std::vector<std::shared_ptr<const KnownRequest>>;
  // One that alone is too large is not kept, and the caller's before it is forgotten.
  [[nodiscard]] Forgotten Keep(const std::string& caller, std::shared_ptr<const KnownRequest> request)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The episode has ended: nothing continues its requests.
  [[nodiscard]] Forgotten ForgetEpisode(const std::string& id) ABSL_LOCKS_EXCLUDED(mu_);
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    std::string caller;
    std::shared_ptr<const KnownRequest> request;
  };
  using Recent = std::list<Known>;  // the newest first
  void Forget(Recent::iterator at, Forgotten& forgotten) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t max_bytes_;
  mutable base::Mutex mu_;
  Recent recent_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Recent::iterator> by_caller_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::unordered_set<const Known*>> by_episode_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ingot::gateway
