// A tokenizer over a list of pieces: id i is pieces[i]. Optionally it drops the leading space of a decoded text, as
// some real tokenizers do.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

class PieceTokenizer final : public text::Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces, bool strips_leading_space = false)
      : pieces_(std::move(pieces)), strips_(strips_leading_space) {}
  std::vector<int32_t> Encode(std::string_view, bool) const override { return {}; }
  std::string Decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0 && id < vocab_size()) text += pieces_[id];
    }
    if (strips_ && !text.empty() && text[0] == ' ') text.erase(0, 1);
    return text;
  }
  std::optional<int32_t> SpecialId(std::string_view) const override { return std::nullopt; }
  bool IsSpecial(int32_t) const override { return false; }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  const std::vector<std::string> pieces_;
  const bool strips_;
  const std::string fingerprint_ = "pieces";
};

}  // namespace ingot::rollout
