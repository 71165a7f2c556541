#include "trainer/weights_of.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "model/draft_head.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

std::string DtypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    default:
      return at::toString(type);  // Snapshot::Copy rejects it
  }
}

at::ScalarType TypeOf(const std::string& dtype) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    if (DtypeName(type) == dtype) return type;
  }
  TORCH_CHECK(false, "versions do not support tensors of type ", dtype);
}

// Calls `make` with the tensors' bytes.
template <typename Make>
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> FromBytes(const std::map<std::string, at::Tensor>& tensors,
                                                                   const KnownTensors& known, Make make) {
  return AtTorchEdge("snapshot", [&]() -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> {
    const at::NoGradGuard no_history;
    std::vector<at::Tensor> kept;  // owners of the views' bytes
    std::vector<weights::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
      const auto found = known.find(name);
      if (found != known.end() && found->second.dtype == DtypeName(tensor.scalar_type()) &&
          tensor.sizes() == found->second.shape) {
        views.push_back(found->second);
        continue;
      }
      kept.push_back(tensor.detach().to(at::kCPU).contiguous());
      const at::Tensor& host = kept.back();
      views.push_back({name, DtypeName(host.scalar_type()), host.sizes().vec(),
                       std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes())});
      if (name.starts_with(model::kDraftPrefix)) views.back().role = v1::TENSOR_DRAFT;
    }
    return make(views);
  });
}

}  // namespace

KnownTensors Patched(const weights::Snapshot& base, const std::map<std::string, weights::TensorPatch>& patches) {
  KnownTensors known;
  for (size_t i = 0; i < base.size(); ++i) {
    weights::TensorView view = base.view(i);
    const auto found = patches.find(view.name);
    if (found == patches.end()) continue;
    if (!found->second.values.empty()) {
      view.owner = nullptr;
      view.patch = found->second;
    }
    known[view.name] = std::move(view);
  }
  return known;
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotOf(
    int64_t version, const std::map<std::string, at::Tensor>& parameters, const weights::CopyOptions& options,
    const std::map<std::string, RoundedParameter>& rounded, const KnownTensors& known) {
  return FromBytes(parameters, known, [&](auto& views) -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> {
    for (weights::TensorView& view : views) {
      const auto found = rounded.find(view.name);
      if (found == rounded.end() || found->second.memory == nullptr) continue;
      if (found->second.memory.get() != view.bytes.data()) {
        return absl::InternalError("parameter '" + view.name +
                                   "' is not in the memory that the optimizer allocated for it");
      }
      view.owner = found->second.memory;
      view.checksum = found->second.checksum;
    }
    return weights::Snapshot::Copy(version, views, options);
  });
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotExtending(
    const std::shared_ptr<const weights::Snapshot>& base, int64_t version,
    const std::map<std::string, at::Tensor>& more) {
  return FromBytes(more, {}, [&](const auto& views) { return weights::Snapshot::Extend(base, version, views); });
}

model::Parameters ParametersOf(const std::shared_ptr<const weights::Snapshot>& snapshot) {
  model::Parameters parameters;
  for (size_t i = 0; i < snapshot->size(); ++i) {
    const weights::TensorView view = snapshot->view(i);
    if (view.role != v1::TENSOR_POLICY) continue;
    parameters.tensors()[view.name] = at::from_blob(
        const_cast<std::byte*>(view.bytes.data()), view.shape, [snapshot](void*) {}, at::dtype(TypeOf(view.dtype)));
  }
  return parameters;
}

}  // namespace ingot::trainer
