// Defines drafters, which guess a request's next ids so that one forward pass can verify several of them.
//
//   row      tokens[n]   draft 0   draft 1   draft 2
//   samples  id a        id b      id c      id d       a == draft 0, b == draft 1, c != draft 2: a, b, and c are kept
//
// The engine samples every id as it would without drafts, as a pure function of the row, the seed, and the index. It
// keeps row j + 1 only if draft j is the id drawn from row j (Daliri et al., arXiv 2408.07978, for a draft without
// randomness). So a drafter cannot change an id or a log-prob, only the number of passes. Its ids may be stale or
// wrong.
//
// Drafters belong to one EngineCore and are called on its step thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ingot::rollout {

struct Sequence;
struct WeightVersion;

// One request's drafts in the next pass. `ids` follow the request's tokens. `acceptance` is the probability that an id
// is accepted if all earlier ones are.
struct Draft {
  std::vector<int32_t> ids;
  double acceptance = 0;
};

class Drafter {
 public:
  // `most` > 0 is the number of ids that the request can still use. `draft` is initially empty and stays empty if the
  // drafter has no guess.
  struct Ask {
    const Sequence* sequence = nullptr;
    size_t most = 0;
    Draft* draft = nullptr;
  };

  virtual ~Drafter() = default;

  // The name in rollout.speculation.drafters, metrics, and status. Constant.
  virtual std::string_view name() const = 0;

  // Called for a request's first admission. The engine had KV for the first `cached` of its prompt ids.
  virtual void Begun(const Sequence&, size_t /*cached*/) {}

  // Fills in the drafts of several requests, so that a model can draft in one pass. The engine drops ids outside the
  // vocabulary and everything after them.
  virtual void Propose(std::span<const Ask> asks) = 0;

  // Fills in the ids of the drafts that the step verifies. `asks` are the requests for which this drafter proposed ids,
  // with the remaining number of ids. So Propose may return any ids if their number and acceptance are right.
  virtual void Complete(std::span<const Ask>) {}

  // The number of failures so far. The drafter does not use the failed version's head again.
  virtual int64_t failures() const { return 0; }

  // Called before the first step in which requests that follow the newest version use `version`.
  virtual void UseNewest(const std::shared_ptr<const WeightVersion>& /*version*/) {}

  // Called after `sequence.tokens` has grown by `count` > 0 ids, whether or not drafts were verified.
  virtual void Sampled(const Sequence&, size_t /*count*/) {}
  // Called once when the request ends. It stays valid until the call returns.
  virtual void Ended(const Sequence&) {}
};

}  // namespace ingot::rollout
