// LayerWeights loads weights that are not all in memory at once: a pass names the unit that it needs next. A null
// LayerWeights means that all weights are in memory.
#pragma once

#include <cstdint>

namespace ingot::trainer {

class LayerWeights {
 public:
  virtual ~LayerWeights() = default;

  // Blocks until the unit's weights are here; the unit that was needed before may be dropped then. Tensors that
  // autograd saved of a dropped weight are valid again when its unit is needed again. Throws like torch.
  virtual void NeedEmbedding() = 0;
  virtual void NeedLayer(int64_t layer) = 0;
  virtual void NeedHead() = 0;  // the last norm and the logits' matrix
};

}  // namespace ingot::trainer
