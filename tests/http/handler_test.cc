// The types that a handler is given, and the defaults it inherits.
#include "http/handler.h"

#include <gtest/gtest.h>

#include "http/options.h"

namespace ingot::http {
namespace {

TEST(RequestHead, FindsFieldsWithoutCase) {
  const RequestHead head{.method = "GET", .target = "/", .fields = {{"X-Key", "1"}, {"x-key", "2"}, {"Host", "x"}}};
  EXPECT_EQ(head.Find("x-KEY"), "1");
  EXPECT_EQ(head.Find("host"), "x");
  EXPECT_EQ(head.Find("hos"), "");
}

TEST(RequestHead, ReadsTheKeyOfEitherField) {
  const auto key = [](Fields fields) { return RequestHead{.method = "GET", .target = "/", .fields = fields}.Key(); };
  EXPECT_EQ(key({{"Authorization", "Bearer  abc  "}, {"X-Api-Key", "other"}}), "abc");
  EXPECT_EQ(key({{"authorization", "bEARER abc"}}), "abc");
  EXPECT_EQ(key({{"x-api-key", "abc"}}), "abc");
  EXPECT_EQ(key({{"Authorization", "Basic abc"}, {"x-api-key", "other"}}), "other");
  EXPECT_EQ(key({{"Authorization", "Bearer "}}), "");
  EXPECT_EQ(key({{"Authorization", "Bearer"}}), "");
  EXPECT_EQ(key({}), "");
}

TEST(Handler, RejectsInPlainText) {
  struct Nobody final : Handler {
    Opening Head(RequestHead) override { return {}; }
  } handler;
  const Reply reply = handler.Reject("/x", {413, "body_too_large", "too large"});
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(reply.body, "too large\n");
  EXPECT_TRUE(reply.fields.empty());
  EXPECT_EQ(handler.Reject("", {503, "overloaded", "later"}).fields, (Fields{{"Retry-After", "1"}}));
}

TEST(HttpOptions, NameTheFieldAtFault) {
  const auto fault = [](auto change) {
    Options options;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_EQ(fault([](Options&) {}), "");
  EXPECT_NE(fault([](Options& o) { o.port = 65536; }).find("port is 65536"), std::string::npos);
  EXPECT_NE(fault([](Options& o) { o.io_threads = 0; }).find("io_threads is 0"), std::string::npos);
  EXPECT_NE(fault([](Options& o) { o.max_buffered_bytes = 1; }).find("max_buffered_bytes is 1"), std::string::npos);
  EXPECT_NE(fault([](Options& o) { o.tls_key = "key.pem"; }).find("set both certificate and key"), std::string::npos);
  EXPECT_NE(fault([](Options& o) { o.keepalive_s = -1; }).find("keepalive_s is -1"), std::string::npos);
}

}  // namespace
}  // namespace ingot::http
