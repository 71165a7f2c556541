#include "app/snapshots.h"

#include <ATen/ops/from_blob.h>

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

absl::StatusOr<at::ScalarType> TypeOf(const std::string& dtype) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    if (DtypeName(type).value() == dtype) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("weights of type ", dtype, " cannot be stored"));
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

absl::Status SaveSnapshot(const std::string& model_dir, const model::ModelConfig& shape,
                          const weights::Snapshot& snapshot) {
  model::Parameters parameters;
  for (size_t i = 0; i < snapshot.size(); ++i) {
    const weights::TensorView view = snapshot.view(i);
    INGOT_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(view.dtype));
    // Only read from; torch has no tensor of constants.
    parameters.tensors()[view.name] =
        at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.shape, at::TensorOptions().dtype(type));
  }
  return model::SaveModelDir(model_dir, shape, parameters);
}

}  // namespace ingot::app
