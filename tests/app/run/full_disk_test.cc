// The description of a full disk.
#include "app/run/full_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace ingot::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(FullDisk, IsNamedWithItsFolderItsFreeSpaceAndTheNeed) {
  const std::string folder = testing::TempDir();
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(DescribeFullDisk(folder, kAll), AllOf(StartsWith("the disk of " + folder + " is full: "),
                                                    HasSubstr(" MiB are free, and 8796093022207 MiB")));
  EXPECT_EQ(DescribeFullDisk(folder, 1), "");
  EXPECT_EQ(DescribeFullDisk(folder + "/no/such/folder", kAll), "");
}

TEST(FullDisk, IsToldWithErrorsThatItMayCause) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  const absl::Status named = NameFullDisk(absl::ResourceExhaustedError("cannot write a"), testing::TempDir(), kAll);
  EXPECT_TRUE(absl::IsResourceExhausted(named));
  EXPECT_THAT(std::string(named.message()), AllOf(StartsWith("the disk of "), HasSubstr(": cannot write a")));
  for (const absl::Status& other : {absl::OkStatus(), absl::InvalidArgumentError("a")}) {
    EXPECT_EQ(NameFullDisk(other, testing::TempDir(), kAll), other);
  }
}

}  // namespace
}  // namespace ingot::app
