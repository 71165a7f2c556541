// Computes per-token advantages from a grade's terms (TermValue.tokens). They are added to the advantages from rewards.
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns whether any token of the graded episode has its own advantage.
inline bool HasTokenAdvantages(const v1::Grade& grade) {
  for (const v1::TermValue& term : grade.terms()) {
    if (term.weight() != 0 && !term.tokens().empty()) return true;
  }
  return false;
}

// Returns the sum over the terms of weight * value for each sampled token in the call. Empty = no term has values for
// the call. Returns DATA_LOSS if a term does not have exactly `sampled` values.
inline absl::StatusOr<std::vector<double>> TokenAdvantages(const v1::Grade& grade, const std::string& call_id,
                                                           size_t sampled) {
  std::vector<double> sum;
  for (const v1::TermValue& term : grade.terms()) {
    const auto found = term.tokens().find(call_id);
    if (found == term.tokens().end() || term.weight() == 0) continue;
    const auto& values = found->second.values();
    if (static_cast<size_t>(values.size()) != sampled) {
      return absl::DataLossError(absl::StrCat("call ", call_id, ": term '", term.term(), "' has ", values.size(),
                                              " values for ", sampled, " sampled tokens"));
    }
    sum.resize(sampled, 0.0);
    for (size_t t = 0; t < sampled; ++t) sum[t] += term.weight() * static_cast<double>(values[static_cast<int>(t)]);
  }
  return sum;
}

}  // namespace ingot::tree
