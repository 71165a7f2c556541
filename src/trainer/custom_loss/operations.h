// Lists the operations that a custom loss may use, by their names in torch's operator library. Does not use torch.
#pragma once

#include <span>
#include <string_view>

namespace ingot::trainer {

enum class OperationKind {
  kPerToken,  // a token's result depends only on the same token's arguments
  kWhole,     // combines tokens, such as a sum
  kSegments,  // combines tokens in a segment; its `index` argument must be the `segments` or `episodes` input
};

struct Operation {
  std::string_view name;  // "aten::NAME" or "aten::NAME.OVERLOAD"
  OperationKind kind;
};

std::span<const Operation> LossOperations();

// Returns nullptr if the operation is not allowed.
const Operation* FindLossOperation(std::string_view name);

}  // namespace ingot::trainer
