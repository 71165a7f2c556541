#include "base/python_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::base {
namespace {

TEST(PythonName, SplitsAtTheLastColon) {
  const PythonName file = SplitPythonName("C:/my/losses.py:loss");
  EXPECT_EQ(file.place, "C:/my/losses.py");
  EXPECT_EQ(file.name, "loss");
  EXPECT_TRUE(file.in_file());
  EXPECT_FALSE(SplitPythonName("package.module:loss").in_file());
}

TEST(PythonName, NamesTheKeyOfAnInvalidText) {
  for (const char* valid : {"a.py:f", "dir/a.py:f", "a.b:f", "C:/a.py:f"}) {
    EXPECT_TRUE(CheckPythonName("key", valid, "a.py:f").ok()) << valid;
  }
  for (const char* invalid : {"", ":", "a.py", "a.py:", ":f", "C:/a.py"}) {
    EXPECT_THAT(std::string(CheckPythonName("key", invalid, "a.py:f").message()),
                ::testing::StartsWith(absl::StrCat("key is '", invalid, "': write FILE.py:NAME, such as a.py:f")));
  }
}

}  // namespace
}  // namespace ingot::base
