#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {

extern const Family kLlama;
const Family kLlama = {.model_type = "llama",
                       .architecture = "LlamaForCausalLM",
                       .kv_heads_required = false,
                       .reads_attention_bias = true,
                       .reads_mlp_bias = true,
                       .layer = DenseLayer};

}  // namespace ingot::model
