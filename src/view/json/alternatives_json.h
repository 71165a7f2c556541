// Collects the recorded alternatives of a call's tokens as JSON columns for the page (tree/alternatives.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/tree.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::view {

// Not thread safe.
class AlternativesJson {
 public:
  explicit AlternativesJson(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends a sampled segment's alternatives and returns their number per token; 0 = none, or lists with inconsistent
  // lengths.
  int32_t Append(const v1::Segment& segment);

  // Returns members to append to a nonempty object, or "" if there are no alternatives:
  //   ,"alternative": [id, ...], "alternative_logprob": [...],   for each token, most likely first
  //    "alternative_text": {"ID": text, ...}                     each id's text
  std::string Members() const;

 private:
  const text::Tokenizer& tokenizer_;
  std::string ids_, logprobs_;  // comma-separated
  std::map<int32_t, std::string> texts_;
};

// Appends a number with four digits; null if it is not finite.
void AppendNumber(double value, std::string& out);

}  // namespace ingot::view
