#include "model/dispatch.h"

#include <ATen/ATen.h>

namespace ingot::model {

Dispatch::Dispatch(Communicator& communicator, const at::Tensor& counts) : communicator_(communicator) {
  const int64_t ranks = communicator.size(Axis::kExpert), experts = counts.size(0);
  TORCH_CHECK(experts % ranks == 0, experts, " experts do not divide among ", ranks, " ranks");
  const int64_t held = experts / ranks;
  first_ = communicator.rank(Axis::kExpert) * held;
  sent_rows_ = counts.view({ranks, held}).sum(1);
  at::Tensor ignored;
  // [ranks, held]: the number of rows on each rank for each of this rank's experts.
  const at::Tensor by_rank =
      communicator.Exchange(Axis::kExpert, counts, at::full({ranks}, held, at::kLong), &ignored).view({ranks, held});
  received_ = by_rank.sum(0);
  received_rows_ = by_rank.sum(1);
  if (ranks == 1) return;
  // Rows arrive by rank, then by expert. A stable sort by expert groups each expert's rows.
  const at::Tensor expert = at::arange(held, at::kLong).repeat({ranks}).repeat_interleave(by_rank.reshape({-1}));
  order_ = expert.argsort(/*stable=*/true, /*dim=*/0);
  back_ = order_.argsort();
}

at::Tensor Dispatch::Send(const at::Tensor& rows) const {
  at::Tensor received_rows;
  const at::Tensor received = communicator_.Exchange(Axis::kExpert, rows, sent_rows_, &received_rows);
  return order_.defined() ? received.index_select(0, order_) : received;
}

at::Tensor Dispatch::Return(const at::Tensor& results) const {
  at::Tensor received_rows;
  return communicator_.Exchange(Axis::kExpert, order_.defined() ? results.index_select(0, back_) : results,
                                received_rows_, &received_rows);
}

}  // namespace ingot::model
