// The whole prompts of an episode's calls. A call that continues another one names only what is new
// (v1::Call::continued_segments):
//
//   call  parent  continued_segments  context_keys  sampled_keys     its whole prompt
//   A                                 s q           a                s q
//   B     A       1                   r             b                s q a r
//   C     A       0                   a' r                           s q a' r         (a': the beginning of a)
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::tree {

class Contexts {
 public:
  // `calls`: a range of the episode's v1::Call, which must outlive this.
  template <typename Calls>
  explicit Contexts(const Calls& calls) {
    for (const v1::Call& call : calls) by_id_.emplace(call.call_id(), &call);
  }

  // The call that `call` continues; nullptr: it names its whole prompt. DATA_LOSS: that call is not there, or sampled
  // fewer segments than are continued.
  absl::StatusOr<const v1::Call*> ContinuedBy(const v1::Call& call) const;

  // Content keys of the whole prompt, root to leaf. Errors as ContinuedBy, of any call on the way.
  absl::StatusOr<std::vector<std::string>> KeysOf(const v1::Call& call) const;

  // `call` and those that it continues, one after the other, the one that continues none last.
  absl::StatusOr<std::vector<const v1::Call*>> ChainOf(const v1::Call& call) const;

 private:
  std::map<std::string_view, const v1::Call*> by_id_;
};

}  // namespace ingot::tree
