// Weights that are not all here at once: a pass says what it needs next. Without one (null), all are.
#pragma once

#include <cstdint>

namespace ingot::trainer {

class LayerWeights {
 public:
  virtual ~LayerWeights() = default;

  // Blocks until the weights are here; what was needed before may be gone then. What autograd kept of them is good
  // again once they are needed again. Throws like torch.
  virtual void NeedEmbedding() = 0;
  virtual void NeedLayer(int64_t layer) = 0;
  virtual void NeedHead() = 0;  // the last norm and the logits' matrix
};

}  // namespace ingot::trainer
