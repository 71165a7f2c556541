// LayerWeights loads weights that are not all in memory at once. A pass requests the unit that it needs next. A null
// LayerWeights means that all weights are in memory.
#pragma once

#include <cstdint>

namespace ingot::trainer {

class LayerWeights {
 public:
  virtual ~LayerWeights() = default;

  // Blocks until the unit's weights are in memory. May drop the previous unit. Tensors that autograd saved from a
  // dropped weight become valid when its unit is reloaded. Throws torch's exceptions.
  virtual void NeedEmbedding() = 0;
  virtual void NeedLayer(int64_t layer) = 0;
  virtual void NeedHead() = 0;  // the last norm and the logits matrix
};

}  // namespace ingot::trainer
