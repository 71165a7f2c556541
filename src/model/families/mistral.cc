#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {

extern const Family kMistral;
const Family kMistral = {
    .model_type = "mistral", .architecture = "MistralForCausalLM", .window = Window::kEveryLayer, .layer = DenseLayer};

}  // namespace ingot::model
