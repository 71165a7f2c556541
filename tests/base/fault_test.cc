#include "base/fault.h"

#include <gtest/gtest.h>

namespace ingot::base {
namespace {

TEST(FaultTest, KeepsTheFieldApartFromItsFault) {
  const absl::Status status = FaultError({"sampling.logit_bias", "it has \"a\"\nand b"});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "sampling.logit_bias: it has \"a\"\nand b");
  const auto fault = FaultOf(Annotate(status, "request 7"));
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->field, "sampling.logit_bias");
  EXPECT_EQ(fault->what, "it has \"a\"\nand b");
  // One line, since gRPC carries it in a header.
  status.ForEachPayload([](absl::string_view, const absl::Cord& payload) {
    EXPECT_EQ(std::string(payload).find('\n'), std::string::npos);
  });
}

TEST(FaultTest, OtherErrorsNameNoField) {
  EXPECT_FALSE(FaultOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(FaultOf(absl::InvalidArgumentError("sampling.logit_bias: no")).has_value());
}

}  // namespace
}  // namespace ingot::base
