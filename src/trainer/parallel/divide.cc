#include "trainer/parallel/divide.h"

#include <algorithm>
#include <unordered_map>

#include "trainer/pass/window_pairs.h"
#include "tree/trie.h"

namespace ingot::trainer {
namespace {

// A call's position in trie order.
struct CallPlace {
  int32_t call = 0;
  int64_t length = 0;
  int64_t shared = 0;  // tokens in common with the previous call
  int64_t entries = 0;
};

std::vector<CallPlace> InTrieOrder(std::span<const tree::CallPath> calls) {
  tree::Trie trie;
  std::unordered_map<int32_t, std::vector<int32_t>> ending;  // node -> calls that end there
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].sampled.empty()) continue;
    ending[trie.Insert(calls[i].sampled, trie.Insert(calls[i].context))].push_back(static_cast<int32_t>(i));
  }
  std::vector<CallPlace> order;
  int64_t shared = 0;  // shared with the previous call: the minimum depth on the path from its end to here
  for (const int32_t id : trie.PreOrder()) {
    shared = std::min<int64_t>(shared, trie.node(id).depth);
    const auto found = ending.find(id);
    if (found == ending.end()) continue;
    for (const int32_t call : found->second) {
      const tree::CallPath& path = calls[static_cast<size_t>(call)];
      order.push_back({call, path.size(), shared, std::ssize(path.sampled)});
      shared = path.size();
    }
  }
  return order;
}

// Returns the cost of adding a call to a run that already contains its first `shared` tokens.
double CostOf(const CallPlace& place, int64_t shared, const RowCosts& costs) {
  const auto pairs = [&](int64_t window) {
    return static_cast<double>(SequencePairs(place.length, window) - SequencePairs(shared, window));
  };
  return costs.row * static_cast<double>(place.length - shared) + costs.pair * pairs(0) +
         (costs.window > 0 ? costs.window_pair * pairs(costs.window) : 0) +
         costs.loss_entry * static_cast<double>(place.entries);
}

// Returns the number of runs, filled from the front, with a cost of at most `limit` each. A call that costs more gets
// its own run. If not null, `begins` is set to the index of each run's first call.
int RunsWithin(const std::vector<CallPlace>& order, double limit, const RowCosts& costs, std::vector<size_t>* begins) {
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

std::vector<int32_t> DivideCalls(std::span<const tree::CallPath> calls, int ranks, const RowCosts& costs) {
  std::vector<int32_t> rank_of(calls.size(), -1);
  const std::vector<CallPlace> order = InTrieOrder(calls);
  // A run costs at least as much as its most expensive call, and at most as much as all calls run separately.
  double least = 0, most = 0;
  for (const CallPlace& place : order) {
    least = std::max(least, CostOf(place, 0, costs));
    most += CostOf(place, 0, costs);
  }
  if (RunsWithin(order, least, costs, nullptr) <= ranks) most = least;
  // Cost estimates are less precise than one millionth.
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
