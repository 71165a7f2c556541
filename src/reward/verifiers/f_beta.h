// Computes F-beta over ids. The answer is a JSON list of ids (strings or numbers) or one id per line. `expected` has
// the same form and must not be empty. Repeated ids count once.
//
//   P = correct ids in the answer / ids in the answer, R = correct ids in the answer / expected ids
//   reward = (1 + beta^2) P R / (beta^2 P + R), or 0 if no id is correct
//
// Sets the signals `precision` and `recall`, and the fact `returned` with the answer's ids for the `retrieval` term.
#pragma once

#include <memory>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

absl::StatusOr<std::unique_ptr<const Verifier>> MakeFBeta(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
