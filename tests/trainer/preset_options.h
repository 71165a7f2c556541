// A preset's settings as options, for tests below the configuration's schema.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "trainer/options.h"
#include "trainer/presets.h"

namespace ingot::trainer {

// Applies a preset as the configuration's schema does, for the fields that presets name.
inline TrainerOptions OptionsOf(const std::string& preset) {
  TrainerOptions o;
  const std::map<std::string, std::string*> words = {{"objective", &o.objective},
                                                     {"loss_aggregation", &o.loss_aggregation},
                                                     {"advantage_baseline", &o.advantage_baseline},
                                                     {"advantage_normalization", &o.advantage_normalization},
                                                     {"advantage_credit", &o.advantage_credit},
                                                     {"train_segments", &o.train_segments}};
  const std::map<std::string, double*> numbers = {{"eps_clip_low", &o.eps_clip_low},
                                                  {"eps_clip_high", &o.eps_clip_high},
                                                  {"reference_kl_coefficient", &o.reference_kl_coefficient}};
  const std::map<std::string, int64_t*> counts = {{"loss_constant_tokens", &o.loss_constant_tokens},
                                                  {"optimizer_reset_every", &o.optimizer_reset_every}};
  const auto settings = Preset(preset);
  EXPECT_TRUE(settings.ok()) << settings.status();
  for (const auto& [field, value] : *settings) {
    if (words.contains(field)) {
      *words.at(field) = value;
    } else if (numbers.contains(field)) {
      *numbers.at(field) = std::stod(value);
    } else if (counts.contains(field)) {
      *counts.at(field) = std::stoll(value);
    } else {
      EXPECT_EQ(field, "filter_zero_variance");
      o.filter_zero_variance = value == "true";
    }
  }
  return o;
}

}  // namespace ingot::trainer
