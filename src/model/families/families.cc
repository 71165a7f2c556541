#include <array>

#include "model/families/family.h"

namespace ingot::model {

extern const Family kDeepseekV3, kGemma2, kGemma3, kGlm4Moe, kGptOss, kKimiK2, kLlama, kMiniMaxM2, kMistral, kQwen2,
    kQwen3, kQwen3Moe, kQwen3Next;

namespace {
const std::array kFamilies = {&kDeepseekV3, &kGemma2,  &kGemma3, &kGlm4Moe, &kGptOss,   &kKimiK2,   &kLlama,
                              &kMiniMaxM2,  &kMistral, &kQwen2,  &kQwen3,   &kQwen3Moe, &kQwen3Next};
}  // namespace

const Family* FindFamily(std::string_view model_type) {
  for (const Family* family : kFamilies) {
    if (family->model_type == model_type) return family;
  }
  return nullptr;
}

std::string FamilyNames() {
  std::string names;
  for (const Family* family : kFamilies) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", base::View(family->model_type));
  }
  return names;
}

}  // namespace ingot::model
