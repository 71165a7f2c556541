#include "app/models/chat_vendor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

TEST(ReadVendorAnswer, ReadsTextAndToolCalls) {
  const auto answer = ReadVendorAnswer(R"({"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant",
      "content": "I look.", "tool_calls": [{"id": "v1", "type": "function", "function": {"name": "open", "arguments": "{\"k\": 1}"}},
                                           {"id": "v2", "type": "function", "function": {"name": "shut", "arguments": "{}"}}]}}]})",
                                       /*stream=*/false);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->message.content, "I look.");
  ASSERT_EQ(answer->message.tool_calls.size(), 2);
  EXPECT_EQ(answer->message.tool_calls[0].arguments_json, R"({"k": 1})");
  EXPECT_EQ(answer->message.tool_calls[1].name, "shut");
  EXPECT_FALSE(answer->cut);
}

TEST(ReadVendorAnswer, JoinsTheEventsOfAStream) {
  const auto answer = ReadVendorAnswer(
      ": a comment\n\ndata: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": null}}]}\n\n"
      "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\r\n\r\ndata: {\"choices\": [{\"delta\": {\"content\": "
      "\"b\"}}]}\n\n"
      "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 0, \"id\": \"v\", \"function\": {\"name\": "
      "\"open\", "
      "\"arguments\": \"{\"}}]}}]}\n\n"
      "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 0, \"function\": {\"arguments\": \"}\"}}]}}]}\n\n"
      "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"length\"}]}\n\ndata: {\"choices\": []}\n\ndata: "
      "[DONE]\n\n",
      /*stream=*/true);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->message.content, "ab");
  ASSERT_EQ(answer->message.tool_calls.size(), 1);
  EXPECT_EQ(answer->message.tool_calls[0].arguments_json, "{}");
  EXPECT_TRUE(answer->cut);
}

// The server of Hugging Face's transformers 5.24 sends no [DONE].
TEST(ReadVendorAnswer, AStreamEndsWithItsFinishReasonToo) {
  const auto answer = ReadVendorAnswer(
      "data: {\"choices\": [{\"delta\": {\"content\": \"Hello\"}, \"index\": 0}]}\n\n"
      "data: {\"choices\": [{\"delta\": {}, \"index\": 0, \"finish_reason\": \"stop\"}]}\n\n",
      /*stream=*/true);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->message.content, "Hello");
}

TEST(ReadVendorAnswer, NamesWhatIsNoAnswer) {
  EXPECT_THAT(ReadVendorAnswer("<html>", false).status().message(), HasSubstr("without choices[0].message"));
  EXPECT_THAT(ReadVendorAnswer(R"({"choices": []})", false).status().message(),
              HasSubstr("without choices[0].message"));
  EXPECT_THAT(ReadVendorAnswer("data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n", true).status().message(),
              HasSubstr("ended before a finish_reason or [DONE]"));
  EXPECT_THAT(ReadVendorAnswer("data: {\"error\": {\"message\": \"no\"}}\n\n", true).status().message(),
              HasSubstr("contains an error"));
  EXPECT_THAT(ReadVendorAnswer("data: [DONE]\n\n", true).status().message(), HasSubstr("no choices[0].delta"));
}

v1::SamplingParams Sampling(const std::function<void(v1::SamplingParams&)>& change) {
  v1::SamplingParams sampling;
  sampling.set_temperature(1);
  change(sampling);
  return sampling;
}

TEST(VendorRequest, AsksForMessagesUnderTheVendorsName) {
  gateway::ModelOptions model;
  model.name = "big";
  model.url = "http://h/v1";
  model.served_model = "vendor-1";
  model.stream = true;
  gateway::GatewayRequest request;
  text::Message& message = request.conversation.messages.emplace_back();
  message.role = "user";
  message.content = "hi";
  request.stop = {"END"};
  v1::SamplingParams sampling;
  sampling.set_temperature(0.5);
  sampling.set_max_new_tokens(7);
  const auto body = VendorRequest(model, request, sampling);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(
      base::ParseJson(base::PrintJson(*body)).value(),
      *base::ParseJson(R"({"model": "vendor-1", "temperature": 0.5, "max_tokens": 7, "stream": true, "stop": ["END"],
                                 "messages": [{"role": "user", "content": "hi"}]})"));
  EXPECT_THAT(VendorRequest(model, request, Sampling([](auto& s) { s.set_top_k(3); })).status().message(),
              HasSubstr("top_k"));
  EXPECT_EQ(VendorRequest(model, request, Sampling([](auto& s) { s.set_top_p(0.5); }))->at("top_p").to_number<double>(),
            0.5);
  request.logprobs = true;
  EXPECT_THAT(VendorRequest(model, request, sampling).status().message(), HasSubstr("log-probs"));
}

}  // namespace
}  // namespace ingot::app
