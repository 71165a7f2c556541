// Compares renderings.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "text/jinja/template.h"

namespace ingot::text::jinja {

inline void ExpectSame(const RenderedText& a, const RenderedText& b, const std::string& source) {
  ASSERT_EQ(a.text, b.text) << source;
  EXPECT_EQ(a.marks, b.marks) << source;
  EXPECT_EQ(a.generations, b.generations) << source;
  ASSERT_EQ(a.passes.size(), b.passes.size()) << source;
  for (size_t i = 0; i < a.passes.size(); ++i) {
    EXPECT_EQ(a.passes[i].index, b.passes[i].index) << source;
    EXPECT_EQ(a.passes[i].begin, b.passes[i].begin) << source;
    EXPECT_EQ(a.passes[i].end, b.passes[i].end) << source;
  }
}

}  // namespace ingot::text::jinja
