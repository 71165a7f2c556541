// Reconstructs the full prompts of an episode's calls. If a call continues a parent call, its record contains only the
// new segments and the number of the parent's sampled segments that precede them (v1::Call::continued_segments):
//
//   call  parent  continued_segments  context_keys  sampled_keys     its whole prompt
//   A                                 s q           a                s q
//   B     A       1                   r             b                s q a r
//   C     A       0                   a' r                           s q a' r         (a': a prefix of a)
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
  // `calls` is a range of the episode's v1::Calls, which must outlive this object.
  template <typename Calls>
  explicit Contexts(const Calls& calls) {
    for (const v1::Call& call : calls) by_id_.emplace(call.call_id(), &call);
  }

  // Returns the parent call that `call` continues, or nullptr if `call` contains its full prompt. Returns DATA_LOSS if
  // the parent call is missing or sampled fewer segments than `call` continues.
  absl::StatusOr<const v1::Call*> ContinuedBy(const v1::Call& call) const;

  // Returns the content keys of the full prompt, from root to leaf. Returns the same errors as ContinuedBy, for every
  // call on the path.
  absl::StatusOr<std::vector<std::string>> KeysOf(const v1::Call& call) const;

  // Returns `call`, its parent, its grandparent, and so on, up to the call that contains its full prompt. Also returns
  // DATA_LOSS if a call continues itself.
  absl::StatusOr<std::vector<const v1::Call*>> ChainOf(const v1::Call& call) const;

 private:
  std::map<std::string_view, const v1::Call*> by_id_;
};

}  // namespace ingot::tree
