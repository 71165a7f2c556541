// F-beta over ids: the answer is a JSON list of ids (strings or numbers), or one id on each line; `expected` is such a
// list, not empty. A repeated id counts once.
//
//   P = right ids of the answer / ids of the answer, R = right ids of the answer / expected ids
//   reward = (1 + beta^2) P R / (beta^2 P + R), 0 if no id is right
//
// Signals `precision` and `recall`; the fact `returned` has the ids of the answer, for the term `retrieval`.
#pragma once

#include <memory>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

absl::StatusOr<std::unique_ptr<const Verifier>> MakeFBeta(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
