#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {

extern const Family kQwen3;
const Family kQwen3 = {.model_type = "qwen3",
                       .architecture = "Qwen3ForCausalLM",
                       .default_head_dim = 128,
                       .reads_attention_bias = true,
                       .qk_norm = true,
                       .window = Window::kSwitched,
                       .layer = DenseLayer};

}  // namespace ingot::model
