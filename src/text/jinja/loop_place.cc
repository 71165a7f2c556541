#include "text/jinja/loop_place.h"

#include <algorithm>
#include <optional>

namespace ingot::text::jinja {
namespace {

constexpr int64_t kLargest = int64_t{1} << 32;  // no sum of as many as an expression has overflows

// How often a sum has the number of the loop's items, and loop.index0.
struct Terms {
  int lengths = 0, places = 0;
};

std::optional<Terms> OfLoop(std::string_view attribute) {
  if (attribute == "index0" || attribute == "index") return Terms{0, 1};
  if (attribute == "revindex0" || attribute == "revindex") return Terms{1, -1};
  if (attribute == "length") return Terms{1, 0};
  return std::nullopt;
}

bool IsLength(const Expr& expr) {
  const CallArguments& given = expr.arguments;
  return expr.kind == Expr::Kind::kFilter && (expr.text == "length" || expr.text == "count") &&
         expr.items[0] != nullptr && expr.items[0]->kind == Expr::Kind::kName && given.positional.empty() &&
         given.named.empty() && given.star == nullptr && given.double_star == nullptr;
}

std::optional<Terms> TermsOf(const Expr& expr, int loop_slot, std::vector<int>& lists) {
  if (expr.kind == Expr::Kind::kConst) {
    const bool small = expr.constant.is_int() && std::abs(expr.constant.integer()) < kLargest;
    return small ? std::optional(Terms()) : std::nullopt;
  }
  if (expr.kind == Expr::Kind::kAttribute) {
    const Expr& object = *expr.items[0];
    return object.kind == Expr::Kind::kName && object.slot == loop_slot ? OfLoop(expr.text) : std::nullopt;
  }
  if (IsLength(expr)) {
    lists.push_back(expr.items[0]->slot);
    return Terms{1, 0};
  }
  if (expr.kind != Expr::Kind::kBinary || (expr.op != '+' && expr.op != '-')) return std::nullopt;
  const auto left = TermsOf(*expr.items[0], loop_slot, lists);
  const auto right = left.has_value() ? TermsOf(*expr.items[1], loop_slot, lists) : std::nullopt;
  if (!right.has_value()) return std::nullopt;
  const int sign = expr.op == '-' ? -1 : 1;
  return Terms{left->lengths + sign * right->lengths, left->places + sign * right->places};
}

}  // namespace

bool CountsFromEnd(const Expr& expr, int loop_slot, std::vector<int>& lists) {
  const auto terms = TermsOf(expr, loop_slot, lists);
  return terms.has_value() && terms->lengths + terms->places == 0;
}

}  // namespace ingot::text::jinja
