// Measures a draft head without verifying its ids: the shadow head, which some versions contain next to their own
// (trainer/draft/draft_options.h). Drafts never change the sampled ids, so comparing its ids with them gives the counts
// of an engine that drafts with this head alone and always verifies all ids:
//
//   sampled      a  b  c  d  e  f        in any number of the engine's own passes
//   its passes   a  └──────┘  └──...     after a, it drafts b c x: a pass that would sample b, c, and d
//                                        after d, it drafts again from the hidden state that d was sampled from
//
// The engine's own passes end elsewhere. So the hidden states of all rows of a pass are kept until the step ends. Drafts
// that would exceed the engine's limits for rows or memory are counted, too.
//
// Called on the step thread. Does nothing for requests on versions without a shadow head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/sequence.h"
#include "rollout/speculation/head_draws.h"
#include "rollout/speculation/speculation_options.h"

namespace ingot::rollout {

class DraftShadow {
 public:
  struct Counts {
    int64_t drafted = 0, accepted = 0;  // ids in passes whose outcome is known
    int64_t tokens = 0, passes = 0;     // ids that these passes sample, and the passes, counted per request
  };

  // REQUIRES: `options` are valid, and `runner` outlives this object.
  DraftShadow(const SpeculationOptions& options, ModelRunner& runner);

  // Called when the last forward pass, on `version`, has sampled the request's last `count` > 0 ids.
  void Sampled(const Sequence& sequence, const WeightVersion& version, size_t count);
  // Called when the request ends. If it was sampled in this step, it must stay valid until EndStep.
  void Ended(const Sequence& sequence);
  // Drafts, and counts the passes that the step's ids have decided.
  void EndStep();

  const Counts& counts() const { return counts_; }

 private:
  struct Request {
    size_t begin = 0;      // number of tokens at which its current pass begins
    bool drafted = false;  // `guess` is that pass's
    std::vector<int32_t> guess;
    bool ended = false;
    const WeightVersion* version = nullptr;  // of the step
    std::vector<size_t> slots;               // the hidden states of the tokens from `first_kept` on
    size_t first_kept = 0;
  };

  void Forget(const Sequence& sequence);
  // Counts the current pass and begins the next one, if the sampled ids have decided it.
  bool Advance(const Sequence& sequence, Request& request);
  // Advances until a guess is needed. Returns false if none is.
  bool NeedsGuess(const Sequence& sequence, Request& request);
  // Draws the guesses of the requests in `asking_`.
  void Draw();
  void DropSlots(Request& request);

  const size_t most_;
  ModelRunner& runner_;
  HeadDraws draws_;
  uint64_t failed_salt_ = 0;  // salt of the last version whose shadow head failed; 0 = none
  Counts counts_;
  absl::flat_hash_map<const Sequence*, Request> requests_;
  std::vector<const Sequence*> sampled_;  // in this step

  // Scratch memory.
  std::vector<const Sequence*> asking_, left_;
  std::vector<HeadDraws::One> ones_;
};

}  // namespace ingot::rollout
