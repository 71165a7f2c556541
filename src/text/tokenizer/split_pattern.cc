#include "text/tokenizer/split_pattern.h"

#include <cstring>

#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

class Literal final : public SplitPattern {
 public:
  explicit Literal(std::string literal) : literal_(std::move(literal)) {}
  bool Find(std::string_view text, size_t from, Regex::Match* match) const override {
    const size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return false;
    *match = {at, at + literal_.size()};
    return true;
  }

 private:
  const std::string literal_;
};

class ByRegex final : public SplitPattern {
 public:
  explicit ByRegex(std::shared_ptr<const Regex> regex) : regex_(std::move(regex)) {}
  bool Find(std::string_view text, size_t from, Regex::Match* match) const override {
    return regex_->Find(text, from, match);
  }

 private:
  const std::shared_ptr<const Regex> regex_;
};

}  // namespace

std::shared_ptr<const SplitPattern> LiteralPattern(std::string literal) {
  return std::make_shared<Literal>(std::move(literal));
}

absl::StatusOr<std::shared_ptr<const SplitPattern>> RegexPattern(std::string_view pattern) {
  if (auto known = KnownPattern(pattern)) return known;
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const Regex> regex, Regex::Compile(pattern));
  return std::make_shared<ByRegex>(std::move(regex));
}

bool MatchIterator::Next(Regex::Match* match) {
  if (text_.empty()) return false;
  while (from_ <= text_.size() && pattern_.Find(text_, from_, match)) {
    if (match->begin == match->end && match->end == last_end_) {
      from_ += from_ < text_.size() ? DecodeAt(text_, from_).size : 1;
      continue;
    }
    from_ = last_end_ = match->end;
    return true;
  }
  return false;
}

}  // namespace ingot::text
