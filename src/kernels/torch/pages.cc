#include "kernels/torch/pages.h"

#include <torch/library.h>

#include "kernels/torch/device_op.h"
#include "kernels/torch/operands.h"

namespace ingot::kernels {
namespace {

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def(
      "rows_to_pages(Tensor? q, Tensor k, Tensor? v, Tensor? q_weight, Tensor? k_weight, float eps, Tensor? cos, "
      "Tensor? sin, Tensor? positions, Tensor slots, Tensor(a!)? y, Tensor(b!) k_pages, Tensor(c!)? v_pages) -> ()");
}

const DeviceOp<RowsToPagesSignature>& PagesOp() {
  static const DeviceOp<RowsToPagesSignature> op("ingot::rows_to_pages");
  return op;
}

// Calls the operator with the values and their pages, or without both if values are keys.
void WritePages(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const HeadTurn& turn,
                const at::Tensor& y, const PageRows& to) {
  const bool values = !to.v.is_same(to.k);
  PagesOp()(Optional(q), k.contiguous(), values ? Optional(v.contiguous()) : std::nullopt, Optional(turn.q_weight),
            Optional(turn.k_weight), turn.eps, Optional(turn.cos), Optional(turn.sin), Optional(turn.positions),
            to.slots, Optional(y), to.k, values ? Optional(to.v) : std::nullopt);
}

}  // namespace

bool WritesPages(const at::Tensor& pages) { return PagesOp().Serves(pages); }

void WriteRows(const at::Tensor& k, const at::Tensor& v, const PageRows& to) { WritePages({}, k, v, {}, {}, to); }

at::Tensor TurnAndWriteRows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const HeadTurn& turn,
                            const PageRows& to) {
  const at::Tensor queries = q.contiguous();
  at::Tensor y = at::empty_like(queries);
  WritePages(queries, k, v, turn, y, to);
  return y;
}

}  // namespace ingot::kernels
