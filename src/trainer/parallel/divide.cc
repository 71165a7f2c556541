#include "trainer/parallel/divide.h"

#include <algorithm>

namespace ingot::trainer {
namespace {

// A call in the order of the trie.
struct Placed {
  int32_t call = 0;
  int64_t length = 0;
  int64_t shared = 0;  // tokens it has in common with the one before it
  int64_t entries = 0;
};

std::vector<Placed> InTrieOrder(std::span<const tree::FlatCall> calls) {
  std::vector<Placed> order;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto length = static_cast<int64_t>(calls[i].tokens.size());
    const int64_t entries = length - calls[i].context_tokens;
    if (entries > 0) order.push_back({static_cast<int32_t>(i), length, 0, entries});
  }
  const auto tokens = [&](const Placed& placed) -> const std::vector<int32_t>& {
    return calls[static_cast<size_t>(placed.call)].tokens;
  };
  std::stable_sort(order.begin(), order.end(), [&](const Placed& a, const Placed& b) { return tokens(a) < tokens(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const std::vector<int32_t>&before = tokens(order[i - 1]), &own = tokens(order[i]);
    const auto end = before.begin() + std::min<std::ptrdiff_t>(std::ssize(before), std::ssize(own));
    order[i].shared = std::mismatch(before.begin(), end, own.begin()).first - before.begin();
  }
  return order;
}

// What a call adds to a run in which `shared` of its tokens are there already.
double CostOf(const Placed& placed, int64_t shared, const RowCosts& costs) {
  const auto pairs = [](int64_t length) { return static_cast<double>(length) * static_cast<double>(length + 1) / 2; };
  return costs.row * static_cast<double>(placed.length - shared) + costs.pair * (pairs(placed.length) - pairs(shared)) +
         costs.loss_entry * static_cast<double>(placed.entries);
}

// The number of runs that cost at most `limit` each, filled from the front; a call that alone costs more has its own.
// `begins`, where given, gets the first call of each.
int RunsWithin(const std::vector<Placed>& order, double limit, const RowCosts& costs, std::vector<size_t>* begins) {
  int runs = 0;
  double held = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double more = CostOf(order[i], order[i].shared, costs);
    if (runs > 0 && held + more <= limit) {
      held += more;
      continue;
    }
    ++runs;
    held = CostOf(order[i], 0, costs);
    if (begins != nullptr) begins->push_back(i);
  }
  return runs;
}

}  // namespace

std::vector<int32_t> DivideCalls(std::span<const tree::FlatCall> calls, int ranks, const RowCosts& costs) {
  std::vector<int32_t> rank_of(calls.size(), -1);
  const std::vector<Placed> order = InTrieOrder(calls);
  double least = 0, most = 0;  // no run costs less than its dearest call, nor more than all calls apart
  for (const Placed& placed : order) {
    least = std::max(least, CostOf(placed, 0, costs));
    most += CostOf(placed, 0, costs);
  }
  if (RunsWithin(order, least, costs, nullptr) <= ranks) most = least;
  // Halving doubles until they are neighbours would take longer; a millionth of the cost is beyond any estimate.
  for (int i = 0; i < 40 && most - least > 1e-6 * most; ++i) {
    const double middle = least + (most - least) / 2;
    (RunsWithin(order, middle, costs, nullptr) <= ranks ? most : least) = middle;
  }
  std::vector<size_t> begins;
  RunsWithin(order, most, costs, &begins);
  for (size_t run = 0; run < begins.size(); ++run) {
    const size_t end = run + 1 < begins.size() ? begins[run + 1] : order.size();
    for (size_t i = begins[run]; i < end; ++i) rank_of[static_cast<size_t>(order[i].call)] = static_cast<int32_t>(run);
  }
  return rank_of;
}

}  // namespace ingot::trainer
