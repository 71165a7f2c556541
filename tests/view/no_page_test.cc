// The page of a program that was built without npm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/wire.h"
#include "view/bundle.h"
#include "view/make_run.h"
#include "view/page.h"

namespace ingot::view::no_page_test {
namespace {

TEST(Page, OfABuildWithoutNpmSaysSoAndAnswersTheJson) {
  ASSERT_TRUE(Bundle().empty());
  testing::SmallRun run;
  http::Options options;
  options.port = 0;
  const std::string key = "an-admin-key-of-some-length";
  const auto page = Page::Start(options, key, run.Source()).value();
  const auto ask = [&](const std::string& target) {
    http::Wire wire(page->port());
    wire.Send(http::Request("GET", target, "", key));
    return http::Read(wire);
  };
  const http::Response front = ask("/");
  EXPECT_EQ(front.status, 200);
  EXPECT_THAT(front.body, ::testing::HasSubstr("built without npm and has no page. Install nodejs and npm"));
  EXPECT_EQ(ask("/app.js").status, 404);
  EXPECT_THAT(ask("/api/run").body, ::testing::HasSubstr("\"name\":\"small\""));
}

}  // namespace
}  // namespace ingot::view::no_page_test
