#include "text/tokenizer/id_bound.h"

#include <algorithm>
#include <string>

#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

constexpr char kMinIds[] = "ingot/least-ids";

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

absl::Status TooManyIds(size_t least) {
  absl::Status status = absl::OutOfRangeError(absl::StrCat("the text has at least ", least, " tokens"));
  status.SetPayload(kMinIds, absl::Cord(std::to_string(least)));
  return status;
}

std::optional<size_t> LeastIdsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kMinIds);
  if (!payload.has_value()) return std::nullopt;
  return std::stoull(std::string(*payload));
}

Shrinkage Joined(std::span<const Shrinkage> steps) {
  if (steps.empty()) return {};
  Shrinkage all = steps[0];
  for (const Shrinkage& step : steps.subspan(1)) {
    all.bytes *= step.bytes;
    all.ascii *= step.bytes;  // after this step, ASCII text may no longer be ASCII
    all.drops_spaces = all.drops_spaces || step.drops_spaces;
    all.drops_text = all.drops_text || step.drops_text;
  }
  return all;
}

IdBound::IdBound(size_t longest, const Shrinkage& shrinkage)
    : longest_(shrinkage.drops_text ? 0 : longest), shrinkage_(shrinkage) {}

size_t IdBound::LeastIds(std::string_view text) const {
  if (longest_ == 0) return 0;
  size_t ascii = 0, bytes = 0;
  if (!shrinkage_.drops_spaces) {
    ascii = static_cast<size_t>(std::count_if(text.begin(), text.end(), IsAscii));
    bytes = text.size();
  } else {
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = DecodeAt(text, at);
      at += c.size;
      if (Unicode().FlagsOf(c.value) & kSpace) continue;
      bytes += c.size;
      ascii += c.size == 1 ? 1 : 0;
    }
  }
  return std::max(ascii / (longest_ * shrinkage_.ascii), bytes / (longest_ * shrinkage_.bytes));
}

}  // namespace ingot::text
