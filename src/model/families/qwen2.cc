#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {

extern const Family kQwen2;
const Family kQwen2 = {.model_type = "qwen2",
                       .architecture = "Qwen2ForCausalLM",
                       .qkv_bias = true,
                       .window = Window::kSwitched,
                       .layer = DenseLayer};

}  // namespace ingot::model
