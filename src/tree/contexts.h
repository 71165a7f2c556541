// The whole prompts of an episode's calls. The record of a call that continues a parent call names only the new
// segments, and how many sampled segments of the parent come before them (v1::Call::continued_segments):
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
  // `calls`: a range of the episode's v1::Call; they must outlive this object.
  template <typename Calls>
  explicit Contexts(const Calls& calls) {
    for (const v1::Call& call : calls) by_id_.emplace(call.call_id(), &call);
  }

  // The parent call whose path `call` continues; nullptr = `call` names its whole prompt. DATA_LOSS: the parent call is
  // missing, or sampled fewer segments than `call` continues.
  absl::StatusOr<const v1::Call*> ContinuedBy(const v1::Call& call) const;

  // Content keys of the whole prompt, root to leaf. Errors as ContinuedBy, for every call on the path.
  absl::StatusOr<std::vector<std::string>> KeysOf(const v1::Call& call) const;

  // `call`, its parent, its grandparent, and so on; the last names its whole prompt. DATA_LOSS also if a
  // call continues itself.
  absl::StatusOr<std::vector<const v1::Call*>> ChainOf(const v1::Call& call) const;

 private:
  std::map<std::string_view, const v1::Call*> by_id_;
};

}  // namespace ingot::tree
