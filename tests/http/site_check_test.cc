// Which names and origins a server answers to.
#include "http/site_check.h"

#include <gtest/gtest.h>

#include <string>

namespace ingot::http {
namespace {

bool Passes(const Options& options, const std::string& host, const std::string& origin = "") {
  RequestHead head{.method = "POST", .target = "/", .fields = {{"Host", host}}};
  if (!origin.empty()) head.fields.emplace_back("Origin", origin);
  return !SiteCheck(options).Check(head).has_value();
}

TEST(SiteCheckTest, ALoopbackAddressHasNamesThatCannotBeRebound) {
  Options options;
  for (const char* const host : {"127.0.0.1:8080", "localhost", "LocalHost:8080", "localhost.", "a.localhost:1",
                                 "[::1]:80", "10.0.0.7:8080", "[fe80::1]"}) {
    EXPECT_TRUE(Passes(options, host)) << host;
  }
  for (const char* const host :
       {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "notlocalhost",
        "1.2.3", "[evil]", "[", "evil.example@127.0.0.1"}) {
    EXPECT_FALSE(Passes(options, host)) << host;
  }
  options.allow_hosts = {"Proxy.Example"};
  EXPECT_TRUE(Passes(options, "proxy.example:443"));
  EXPECT_FALSE(Passes(options, "evil.example"));
  options.allow_hosts = {"*"};
  EXPECT_TRUE(Passes(options, "evil.example"));
}

TEST(SiteCheckTest, OtherAddressesHaveNamesThatTheServerDoesNotKnow) {
  Options options;
  options.host = "0.0.0.0";
  EXPECT_TRUE(Passes(options, "gpu-box.internal:8080"));
  EXPECT_FALSE(Passes(options, "gpu-box.internal:8080", "http://evil.example"));
}

TEST(SiteCheckTest, AnOriginIsTheRequestsOwnOrListed) {
  Options options;
  EXPECT_TRUE(Passes(options, "127.0.0.1:8080", "http://127.0.0.1:8080"));
  EXPECT_TRUE(Passes(options, "localhost:8080", "https://LOCALHOST:8080")) << "a proxy speaks TLS for it";
  for (const char* const origin :
       {"http://127.0.0.1:9090", "http://evil.example", "null", "http://127.0.0.1", "file://"}) {
    EXPECT_FALSE(Passes(options, "127.0.0.1:8080", origin)) << origin;
  }
  options.allow_origins = {"http://localhost:3000"};
  EXPECT_TRUE(Passes(options, "127.0.0.1:8080", "http://localhost:3000"));
  EXPECT_FALSE(Passes(options, "evil.example", "http://localhost:3000")) << "the Host counts all the same";
}

TEST(SiteCheckTest, AUrlsHostIsAlone) {
  for (const char* const url :
       {"http://h/a@b?c=d@e", "https://h:80?x", "http://u:p@h:80/", "http://a@b@h.#x", "h", "u@h"}) {
    EXPECT_EQ(HostOfUrl(url), "h") << url;
  }
  EXPECT_EQ(HostOfUrl("http://u@[::1]:80/"), "::1");
}

TEST(SiteCheckTest, ASocketFileIsReachedByNoBrowser) {
  Options options;
  options.unix_socket = "/tmp/x.sock";
  EXPECT_TRUE(Passes(options, "run", "http://evil.example"));
}

}  // namespace
}  // namespace ingot::http
