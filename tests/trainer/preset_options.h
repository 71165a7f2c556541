// A preset's settings as options, for tests below the run's configuration.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/config.h"
#include "trainer/options.h"
#include "trainer/presets.h"

namespace ingot::trainer {

inline TrainerOptions OptionsOf(const std::string& preset) {
  TrainerOptions options;
  base::Schema schema;
  Bind(schema, options);
  const auto settings = Preset(preset);
  EXPECT_TRUE(settings.ok()) << settings.status();
  for (const auto& [field, value] : *settings) {
    const absl::Status set = schema.Set(field + "=" + value);
    EXPECT_TRUE(set.ok()) << set;
  }
  return options;
}

}  // namespace ingot::trainer
