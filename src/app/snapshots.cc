#include "app/snapshots.h"

#include <vector>

#include "model/parameters.h"

namespace ingot::app {
namespace {

absl::StatusOr<std::string> DtypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return std::string("F32");
    case at::kBFloat16:
      return std::string("BF16");
    case at::kHalf:
      return std::string("F16");
    default:
      return absl::InvalidArgumentError(absl::StrCat("weights of type ", c10::toString(type), " cannot be served"));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> LoadSnapshot(const std::string& model_dir, int64_t version) {
  INGOT_ASSIGN_OR_RETURN(const model::LoadedModel loaded, model::LoadModelDir(model_dir));
  std::vector<at::Tensor> kept;  // contiguous copies live until the snapshot has its own
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : loaded.parameters.tensors()) {
    kept.push_back(tensor.detach().contiguous());
    const at::Tensor& bytes = kept.back();
    weights::TensorView view;
    view.name = name;
    INGOT_ASSIGN_OR_RETURN(view.dtype, DtypeName(bytes.scalar_type()));
    view.shape.assign(bytes.sizes().begin(), bytes.sizes().end());
    view.bytes = std::span(static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes());
    views.push_back(std::move(view));
  }
  return weights::Snapshot::Copy(version, views);
}

}  // namespace ingot::app
