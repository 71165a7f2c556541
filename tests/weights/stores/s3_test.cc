// What S3 answers, and how a bucket that cannot be used is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "http/server.h"
#include "weights/stores/object_stores.h"
#include "weights/stores/s3_answer.h"

namespace ingot::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::S3Server;

S3Options Options() {
  S3Options options;
  options.endpoint = "https://s3.example.com";
  options.bucket = "weights";
  options.region = "eu-west-1";
  return options;
}

// The answer to a request that may be told an error late.
S3Answer Answer(int http, const std::string& code, const std::string& more = "") {
  S3Answer answer;
  answer.http = http;
  answer.error_in_body = true;
  if (!code.empty()) {
    answer.body =
        "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>as it is</Message>" + more + "</Error>";
  }
  return answer;
}

TEST(S3AnswerTest, TellsFaultsApart) {
  using Code = absl::StatusCode;
  const struct {
    int http;
    const char* code;
    Code status;
    const char* text;
  } cases[] = {
      {404, "NoSuchKey", Code::kNotFound, "NoSuchKey"},
      {404, "NoSuchBucket", Code::kFailedPrecondition, "no bucket 'weights'"},
      {403, "InvalidAccessKeyId", Code::kPermissionDenied, "rejected the credentials"},
      {403, "SignatureDoesNotMatch", Code::kPermissionDenied, "rejected the credentials"},
      {400, "ExpiredToken", Code::kPermissionDenied, "rejected the credentials"},
      {403, "AccessDenied", Code::kPermissionDenied, "do not permit"},
      {403, "RequestTimeTooSkewed", Code::kPermissionDenied, "clock"},
      {301, "PermanentRedirect", Code::kInvalidArgument, "weights.s3.region"},
      {400, "AuthorizationHeaderMalformed", Code::kInvalidArgument, "weights.s3.region"},
      {412, "PreconditionFailed", Code::kAborted, "PreconditionFailed"},
      {409, "ConditionalRequestConflict", Code::kUnavailable, "409"},
      {503, "SlowDown", Code::kUnavailable, "SlowDown"},
      {400, "RequestTimeout", Code::kUnavailable, "RequestTimeout"},
      {500, "", Code::kUnavailable, "HTTP 500"},
      {429, "", Code::kUnavailable, "HTTP 429"},
      {400, "InvalidRequest", Code::kInvalidArgument, "InvalidRequest"},
      {200, "InternalError", Code::kUnavailable, "InternalError"},  // an upload in parts that failed at its end
      {302, "", Code::kInternal, "unexpected response"},
  };
  for (const auto& one : cases) {
    const absl::Status status = ErrorOf(Answer(one.http, one.code), Options());
    EXPECT_EQ(status.code(), one.status) << one.http << " " << one.code << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.text));
  }
  EXPECT_EQ(ErrorOf(Answer(206, ""), Options()), absl::OkStatus());
}

TEST(S3AnswerTest, AnObjectMayHoldTheBytesOfAnError) {
  S3Answer object = Answer(206, "SlowDown");
  object.error_in_body = false;
  EXPECT_EQ(ErrorOf(object, Options()), absl::OkStatus());
  EXPECT_FALSE(MayPass(object));
  object.http = 503;
  EXPECT_TRUE(absl::IsUnavailable(ErrorOf(object, Options())));
  EXPECT_TRUE(MayPass(object));
}

TEST(S3AnswerTest, NamesTheRegionOfTheBucket) {
  const S3Answer malformed = Answer(400, "AuthorizationHeaderMalformed", "<Region>us-west-2</Region>");
  EXPECT_THAT(std::string(ErrorOf(malformed, Options()).message()), HasSubstr("to 'us-west-2'"));
  S3Answer redirect = Answer(301, "");
  redirect.headers["x-amz-bucket-region"] = "ap-south-1";
  EXPECT_THAT(std::string(ErrorOf(redirect, Options()).message()), HasSubstr("to 'ap-south-1'"));
}

TEST(S3AnswerTest, ReadsElementsAndSizes) {
  EXPECT_THAT(XmlTexts("<a><Key>x</Key><Key>y/z</Key><Key>cut", "Key"), ElementsAre("x", "y/z"));
  EXPECT_THAT(XmlText("<a></a>", "Key"), IsEmpty());
  S3Answer range = Answer(206, "");
  range.headers["content-range"] = "bytes 0-4/123456789012";
  EXPECT_EQ(WholeBytes(range), 123456789012);
  range.headers["content-range"] = "bytes 0-4/*";
  EXPECT_EQ(WholeBytes(range), std::nullopt);
}

TEST(S3OptionsTest, RejectsWhatCannotBeUsed) {
  const auto fault = [](const std::function<void(S3Options&)>& change) {
    S3Options options = Options();
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(fault([](S3Options&) {}), IsEmpty());
  EXPECT_THAT(fault([](S3Options& o) { o.endpoint = ""; }), HasSubstr("endpoint"));
  EXPECT_THAT(fault([](S3Options& o) { o.endpoint = "https://key:secret@host"; }), HasSubstr("without credentials"));
  EXPECT_THAT(fault([](S3Options& o) { o.endpoint = "http://10.0.0.1"; }), HasSubstr("not TLS"));
  EXPECT_THAT(fault([](S3Options& o) { o.endpoint = "http://127.0.0.1.example.com"; }), HasSubstr("not TLS"));
  EXPECT_THAT(fault([](S3Options& o) { o.endpoint = "http://127.0.0.1:9000"; }), IsEmpty());
  EXPECT_THAT(fault([](S3Options& o) { o.bucket = "a/b"; }), HasSubstr("bucket"));
  EXPECT_THAT(fault([](S3Options& o) { o.prefix = "/a"; }), HasSubstr("prefix"));
  EXPECT_THAT(fault([](S3Options& o) { o.part_bytes = 1; }), HasSubstr("part_bytes"));
  EXPECT_THAT(fault([](S3Options& o) { o.parallel = 0; }), HasSubstr("parallel"));
}

TEST(S3CredentialsTest, ComeFromAFileOfTheOwnerAlone) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/credentials";
  std::ofstream(path) << "[other]\naws_access_key_id = x\naws_secret_access_key = y\n[default]\n"
                         "aws_access_key_id = AKIA1\naws_secret_access_key=s3cr=et\naws_session_token = t\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  const absl::Status open = ReadS3Credentials(path).status();
  EXPECT_TRUE(absl::IsInvalidArgument(open));
  EXPECT_THAT(std::string(open.message()), HasSubstr("chmod 600"));
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  const auto read = ReadS3Credentials(path);
  ASSERT_EQ(read.status(), absl::OkStatus());
  EXPECT_EQ(read->key_id, "AKIA1");
  EXPECT_EQ(read->secret, "s3cr=et");
  EXPECT_EQ(read->session_token, "t");
  std::ofstream(path) << "[default]\naws_secret_access_key=hidden\n";
  const absl::Status half = ReadS3Credentials(path).status();
  EXPECT_TRUE(absl::IsInvalidArgument(half));
  EXPECT_THAT(std::string(half.message()), Not(HasSubstr("hidden")));
}

constexpr char kLikeAnError[] = "<Error><Code>SlowDown</Code></Error>";

// A bucket whose objects look like errors. An upload in parts fails at its end.
class FailingUploads final : public http::Handler {
 public:
  http::Opening Head(http::RequestHead head) override {
    return {.exchange = http::MakeExchange([head](const std::string&) {
              http::Reply reply{.content_type = "application/xml", .fields = {{"ETag", "\"1\""}}};
              const bool begins = head.target.find("uploads=") != std::string::npos;
              if (head.method == "GET") reply.body = kLikeAnError;
              if (head.method == "POST") {
                reply.body = begins ? "<UploadId>1</UploadId>" : "<Error><Code>InvalidPart</Code></Error>";
              }
              return reply;
            })};
  }
};

TEST(S3UploadTest, ReadsTheBodyOfACompletionAndOfNoObject) {
  FailingUploads handler;
  http::Options server_options;
  server_options.port = 0;
  server_options.shutdown_grace_s = 0;
  const auto server = http::Server::Listen(server_options, handler).value();
  server->Serve();
  S3Options options = Options();
  options.endpoint = server->url();
  options.part_bytes = 5 << 20;
  options.deadline = std::chrono::seconds(30);
  const auto store = OpenS3Store(options, {"key", "secret", ""}).value();
  const auto object = store->Get("run/object", 1000);
  ASSERT_EQ(object.status(), absl::OkStatus());
  EXPECT_EQ(object->bytes, kLikeAnError);
  const absl::Status put = store->Put("run/object", std::string((5 << 20) + 1, 'x'));
  EXPECT_THAT(std::string(put.message()), HasSubstr("InvalidPart"));
}

TEST(S3StoreTest, AMissingBucketIsToldByTheCheck) {
  if (!S3Server::Installed()) GTEST_SKIP() << "no moto (scripts/setup.sh services)";
  S3Options options = testing::NewBucket();
  options.bucket = "none";
  const auto store = OpenS3Store(options, {"key", "secret", ""});
  const absl::Status checked = CheckStore(**store, "run");
  EXPECT_TRUE(absl::IsFailedPrecondition(checked)) << checked;
  EXPECT_THAT(std::string(checked.message()), HasSubstr("no bucket 'none'"));
  EXPECT_THAT(std::string(checked.message()), Not(HasSubstr("secret")));
}

TEST(S3StoreTest, AServerThatDoesNotAnswerEndsTheCallInTime) {
  S3Options options = Options();
  options.endpoint = "http://127.0.0.1:1";  // nobody listens
  options.deadline = std::chrono::milliseconds(500);
  const auto store = OpenS3Store(options, {"key", "secret", ""});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsUnavailable((*store)->Put("run/object", "x")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(S3StoreTest, KeysAreBelowThePrefix) {
  if (!S3Server::Installed()) GTEST_SKIP() << "no moto (scripts/setup.sh services)";
  S3Options options = testing::NewBucket();
  const auto whole = OpenS3Store(options, {"key", "secret", ""});
  options.prefix = "team/a";
  const auto part = OpenS3Store(options, {"key", "secret", ""});
  ASSERT_TRUE((*part)->Put("run/object", "x").ok());
  EXPECT_THAT(*(*part)->List("run/"), ElementsAre("run/object"));
  EXPECT_THAT(*(*whole)->List(""), ElementsAre("team/a/run/object"));
}

TEST(S3StoreTest, ListsMoreThanOnePage) {
  if (!S3Server::Installed()) GTEST_SKIP() << "no moto (scripts/setup.sh services)";
  S3Options options = testing::NewBucket();
  options.page_keys = 3;
  const auto store = OpenS3Store(options, {"key", "secret", ""});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE((*store)->Put("run/" + std::to_string(i), "").ok());
  EXPECT_EQ((*store)->List("run/")->size(), 8);
}

}  // namespace
}  // namespace ingot::weights
