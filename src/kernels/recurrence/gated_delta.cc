#include "kernels/recurrence/gated_delta.h"

#include <cmath>
#include <cstring>

#include "kernels/recurrence/gated_delta_head.h"

namespace ingot::kernels {

std::optional<RowPlan> PlanRows(std::vector<int32_t> parents, int64_t given) {
  RowPlan plan;
  const auto rows = static_cast<int32_t>(parents.size());
  std::vector<bool> forks(parents.size(), false);
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t parent = parents[static_cast<size_t>(row)];
    if (parent >= row || (parent < 0 && parent != kNoParent && ~parent >= given)) return std::nullopt;
    if (parent >= 0 && parent != row - 1) forks[static_cast<size_t>(parent)] = true;
  }
  plan.held.assign(parents.size(), -1);
  std::vector<int32_t> open;  // rows with waiting states; the latest is last
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t parent = parents[static_cast<size_t>(row)];
    if (row > 0 && parent != row - 1) {
      while (!open.empty() && open.back() > parent) open.pop_back();
      if (parent >= 0 && (open.empty() || open.back() != parent)) return std::nullopt;
    }
    if (!forks[static_cast<size_t>(row)]) continue;
    plan.held[static_cast<size_t>(row)] = static_cast<int32_t>(open.size());
    open.push_back(row);
    plan.places = std::max(plan.places, static_cast<int32_t>(open.size()));
  }
  plan.parents = std::move(parents);
  return plan;
}

template <typename T>
void DeltaForward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, T* out, T* kept_states,
                  const ParallelFor& parallel) {
  parallel(shape.key_heads, [&](int64_t begin, int64_t end) {
    delta::HeadRun<T> run(shape, plan, args);
    for (int64_t head = begin; head < end; ++head) {
      size_t next = 0;
      run.Run(head, [&](int64_t row, const T* state) {
        for (int64_t i = 0; i < shape.sharing(); ++i) {
          const int64_t value_head = head * shape.sharing() + i;
          run.Read(i, state, out + (row * shape.value_heads + value_head) * shape.value_dim);
        }
        for (; next < args.kept.size() && args.kept[next].row == row; ++next) {
          std::memcpy(kept_states + args.kept[next].slot * shape.state() + head * run.size(), state,
                      static_cast<size_t>(run.size()) * sizeof(T));
        }
      });
    }
  });
}

#define INGOT_INSTANTIATE(T) \
  template void DeltaForward<T>(const DeltaShape&, const RowPlan&, const DeltaArgs<T>&, T*, T*, const ParallelFor&);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
