// Which earlier call a request continues, after what real clients do to the history they send back.
#include "gateway/prompt/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gateway/prompt/canonical.h"
#include "gateway/prompt/generation.h"

namespace ingot::gateway::history_test {
namespace {

using text::Conversation;
using text::Message;

Message User(const std::string& text) {
  Message message;
  message.role = "user";
  message.content = text;
  return message;
}

Message Tool(const std::string& text) {
  Message message = User(text);
  message.role = "tool";
  return message;
}

Message Assistant(const std::string& text, std::vector<text::ToolCall> calls = {}, const std::string& reasoning = "") {
  Message message = User(text);
  message.role = "assistant";
  message.tool_calls = std::move(calls);
  message.reasoning = reasoning;
  return message;
}

// An episode: the request and the delivered message of every call.
class HistoryTest : public ::testing::Test {
 protected:
  int Call(const Conversation& asked, const Message& delivered) {
    const ConversationKeys keys = ConversationKeys::Of(asked);
    const History::Match match = history_.Find(asked, keys);
    const std::string id = "call" + std::to_string(history_.size());
    const int32_t token = static_cast<int32_t>(history_.size());
    return history_.Add(RequestKey::Of(keys), delivered,
                        {.call_id = id,
                         .parent = match.parent,
                         .prompt = {PromptSegment(std::vector<int32_t>{100 + token})},
                         .sampled = {PromptSegment(std::vector<int32_t>{token})},
                         .text_key = {},
                         .prefill = {},
                         .streamed_ids = 0,
                         .reasoning = ReasoningOf(asked, match.first_new)});
  }
  History::Match Find(const Conversation& asked, const EchoedIds& echoed = {}) const {
    return history_.Find(asked, ConversationKeys::Of(asked), echoed);
  }
  std::string Cause(const Conversation& asked, const EchoedIds& echoed = {}) const {
    return Find(asked, echoed).fork_cause;
  }

  History history_;
  // Two turns: a call of a tool, then an answer.
  const Message user_ = User("list the files");
  const Message called_ = Assistant("I look.", {{"id_1", "ls", R"({"all": false, "path": "/"})"}});
  const Message listed_ = Tool("a b");
  const Message answered_ = Assistant("They are a and b.");
};

TEST_F(HistoryTest, AnAppendedHistoryContinuesItsLastCall) {
  EXPECT_EQ(Find({{user_}, {}}).parent, -1);
  EXPECT_EQ(Cause({{user_}, {}}), "");
  Call({{user_}, {}}, called_);
  const History::Match second = Find({{user_, called_, listed_}, {}});
  EXPECT_EQ(second.parent, 0);
  EXPECT_EQ(second.first_new, 2u);
  EXPECT_EQ(second.fork_cause, "");
  Call({{user_, called_, listed_}, {}}, answered_);
  const History::Match third = Find({{user_, called_, listed_, answered_, User("thanks")}, {}});
  EXPECT_EQ(third.parent, 1);
  EXPECT_EQ(third.first_new, 4u);
  std::vector<int32_t> path;
  for (const SegmentRef* piece : history_.Path(third.parent)) path.push_back(piece->segment->token_ids(0));
  EXPECT_THAT(path, ::testing::ElementsAre(100, 0, 101, 1));
}

TEST_F(HistoryTest, PathIdsAreTheIdsOfTheSegmentsInAnyOrderOfCalls) {
  std::mt19937 random(5);
  int32_t last_id = 0;
  for (int i = 0; i < 200; ++i) {
    History::Call call;
    call.parent = static_cast<int>(random() % (i + 1)) - 1;
    for (uint32_t piece = 0; piece <= random() % 3; ++piece) {
      call.prompt.push_back(PromptSegment(std::vector<int32_t>(1 + random() % 3, ++last_id)));
    }
    history_.Add({}, std::nullopt, std::move(call));
    // Mostly the newest, as an agent does; else any, or none.
    const int asked = random() % 3 > 0 ? i : static_cast<int>(random() % (i + 2)) - 1;
    std::vector<int32_t> expected;
    for (const SegmentRef* piece : history_.Path(asked)) {
      expected.insert(expected.end(), piece->segment->token_ids().begin(), piece->segment->token_ids().end());
    }
    ASSERT_EQ(history_.PathIds(asked), expected) << i;
  }
}

TEST_F(HistoryTest, APathKeepsWhatItsPlaceholdersStandFor) {
  v1::Segment image;
  image.set_source(v1::SOURCE_PROMPT);
  for (const int32_t id : {1, 9, 9}) image.add_token_ids(id);
  v1::Placeholders* run = image.add_placeholders();
  run->set_first(1);
  run->set_count(2);
  run->set_content("image-01");
  History::Call first, second;
  first.prompt = {PromptSegment(std::vector<int32_t>{4, 5}), MakeSegmentRef(image)};
  first.sampled = {PromptSegment(std::vector<int32_t>{6})};
  second.parent = history_.Add({}, std::nullopt, std::move(first));
  second.prompt = {MakeSegmentRef(image)};
  const int call = history_.Add({}, std::nullopt, std::move(second));
  const std::vector<v1::Placeholders> all = history_.PathPlaceholders(call);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].first(), 3);
  EXPECT_EQ(all[1].first(), 7);
  EXPECT_EQ(all[1].count(), 2);
  EXPECT_EQ(all[1].content(), "image-01");
  EXPECT_TRUE(history_.PathPlaceholders(-1).empty());
}

TEST_F(HistoryTest, AMessageAboutAnotherImageContinuesNothing) {
  Message about = User("what is this?");
  about.media = {{.at = 0, .kind = "image", .content = "image-01"}};
  Call({{about}, {}}, answered_);
  EXPECT_EQ(Find({{about, answered_, User("thanks")}, {}}).parent, 0);
  Message other = about;
  other.media[0].content = "image-02";
  EXPECT_EQ(Find({{other, answered_, User("thanks")}, {}}).parent, -1);
  other.media = {};
  EXPECT_EQ(Find({{other, answered_, User("thanks")}, {}}).parent, -1);
  other.media = {{.at = 4, .kind = "image", .content = "image-01"}};
  EXPECT_EQ(Find({{other, answered_, User("thanks")}, {}}).parent, -1) << "the image at another place";
}

TEST_F(HistoryTest, EqualCanonicalFormsContinue) {
  Call({{user_}, {}}, called_);
  const auto continues = [&](const std::string& arguments, const std::string& text, const std::string& id) {
    const Message sent = Assistant(text, {{id, "ls", arguments}});
    return Find({{user_, sent, listed_}, {}}).parent == 0;
  };
  EXPECT_TRUE(continues(R"({"path":"/","all":false})", "I look.", "id_1")) << "arguments re-serialised";
  EXPECT_TRUE(continues(R"({"path": "\/", "all": false})", "I look.", "id_1")) << "other escapes";
  EXPECT_TRUE(continues("{'all': False, 'path': '/'}", "I look.", "id_1")) << "printed by Python";
  EXPECT_TRUE(continues(R"({"all": False, "path": "/"})", "I look.", "id_1")) << "booleans as Python's";
  EXPECT_TRUE(continues(R"({"all": false, "path": "/"})", "\nI look. \n", "id_1")) << "white space around the text";
  EXPECT_TRUE(continues(R"({"all": false, "path": "/"})", "I look.", "toolu_7")) << "a renamed id";
  EXPECT_FALSE(continues(R"({"all": true, "path": "/"})", "I look.", "id_1"));
  EXPECT_FALSE(continues(R"({"all": false, "path": "/"})", "I  look.", "id_1")) << "white space inside the text";
  EXPECT_FALSE(continues(R"({"all": "false", "path": "/"})", "I look.", "id_1")) << "a string is no boolean";
}

// LiteLLM's proxy sends this over Messages, which takes no empty text.
TEST_F(HistoryTest, AFillerStandsForAnAnswerWithoutText) {
  Message silent = called_;
  silent.content.clear();
  Call({{user_}, {}}, silent);
  Message filled = silent;
  filled.content = "[System: Empty message content sanitised to satisfy protocol]";
  const Conversation sent{{user_, filled, listed_}, {}};
  EXPECT_EQ(Find(sent).parent, 0);
  EXPECT_EQ(history_.Restored(sent, ConversationKeys::Of(sent), {}, 0)->messages[1].content, "");
}

TEST_F(HistoryTest, ArgumentsThatTheClientCouldNotParseComeBackWrapped) {
  const std::string broken = R"({"path": "/)";
  Call({{user_}, {}}, Assistant("", {{"id_1", "ls", broken}}));
  const Message wrapped = Assistant("", {{"id_1", "ls", R"({"__unparsedToolInput": "{\"path\": \"/"})"}});
  EXPECT_EQ(Find({{user_, wrapped, listed_}, {}}).parent, 0);
  const Message other = Assistant("", {{"id_1", "ls", R"({"__unparsedToolInput": "{\"path\": \"/x"})"}});
  EXPECT_EQ(Find({{user_, other, listed_}, {}}).parent, -1);
  EXPECT_EQ(Cause({{user_, other, listed_}, {}}), kForkArgumentsChanged);
}

TEST_F(HistoryTest, ChangesOfAKnownMessageHaveNamedCauses) {
  Call({{user_}, {}}, called_);
  const auto cause = [&](const Message& sent, const EchoedIds& echoed = {}) {
    return Cause({{user_, sent, listed_}, {}}, echoed);
  };
  // OpenCode: a call of a tool that is not there comes back as one of "invalid".
  EXPECT_EQ(cause(Assistant("I look.", {{"id_1", "invalid", R"({"tool": "ls", "error": "unknown"})"}})),
            kForkCallRenamed);
  EXPECT_EQ(cause(Assistant("I look.", {{"id_1", "ls", R"({"all": true, "path": "/"})"}})), kForkArgumentsChanged);
  EXPECT_EQ(cause(Assistant("[redacted]", called_.tool_calls)), kForkContentChanged);
  EXPECT_EQ(cause(Assistant("[redacted]"), {{}, {"msg_call0"}, {}}), kForkContentChanged) << "known by an item's id";
  EXPECT_EQ(cause(Assistant("[redacted]")), kForkNotFound) << "nothing tells whose it is";
  EXPECT_EQ(Cause({{User("list ALL files"), called_, listed_}, {}}), kForkHistoryRewritten);
  EXPECT_EQ(Cause({{User("something else")}, {}}), kForkNewConversation);
  const base::json::value tool = *base::ParseJson(R"({"type": "function", "function": {"name": "ls"}})");
  EXPECT_EQ(Cause({{user_, called_, listed_}, {tool}}), kForkToolsChanged);
}

TEST_F(HistoryTest, DroppedTurnsAndRetriesContinueAnEarlierCallAndAreCounted) {
  Call({{user_}, {}}, called_);
  Call({{user_, called_, listed_}, {}}, answered_);
  // mini-swe-agent drops turns that did not parse: the answer is gone, a reminder stands in its place.
  const History::Match dropped = Find({{user_, called_, listed_, User("answer in JSON")}, {}});
  EXPECT_EQ(dropped.parent, 0);
  EXPECT_EQ(dropped.first_new, 2u);
  EXPECT_EQ(dropped.fork_cause, kForkEarlierTurn);
  // The answer was recorded, but its client never saw it and asks again.
  const History::Match again = Find({{user_, called_, listed_}, {}});
  EXPECT_EQ(again.parent, 0);
  EXPECT_EQ(again.fork_cause, kForkRetry);
  EXPECT_EQ(Cause({{user_}, {}}), kForkRetry);
}

TEST_F(HistoryTest, ARewrittenTurnContinuesTheTurnBeforeIt) {
  Call({{user_}, {}}, called_);
  Call({{user_, called_, listed_}, {}}, answered_);
  const History::Match match = Find({{user_, called_, listed_, Assistant("They are c."), User("sure?")}, {}});
  EXPECT_EQ(match.parent, 0);
  EXPECT_EQ(match.first_new, 2u);
  EXPECT_EQ(match.fork_cause, kForkNotFound);
}

TEST_F(HistoryTest, AnEchoedIdDecidesBetweenEqualAnswers) {
  Call({{user_}, {}}, Assistant("", {{"id_1", "ls", "{}"}}));
  Call({{user_}, {}}, Assistant("", {{"id_2", "ls", "{}"}}));
  const auto parent = [&](const std::string& id, const EchoedIds& echoed = {}) {
    return Find({{user_, Assistant("", {{id, "ls", "{}"}}), listed_}, {}}, echoed).parent;
  };
  EXPECT_EQ(parent("id_1"), 0);
  EXPECT_EQ(parent("id_2"), 1);
  EXPECT_EQ(parent("renamed"), 1) << "the latest";
  EXPECT_EQ(parent("renamed", {{}, {"fc_call0_1"}, {}}), 0);
}

TEST_F(HistoryTest, ReasoningThatCameBackDecidesBetweenEqualAnswers) {
  const auto thought = [](const std::string& reasoning) { return Assistant("Yes.", {}, reasoning); };
  Call({{user_}, {}}, thought("R0 first"));
  Call({{user_}, {}}, thought("R1 second"));
  const auto match = [&](const Message& sent) { return Find({{user_, sent, User("go on")}, {}}); };
  EXPECT_EQ(match(thought("R0 first")).parent, 0);
  EXPECT_EQ(match(thought("\n R0 first\n")).parent, 0) << "white space around it";
  EXPECT_EQ(match(thought("R1 second")).parent, 1);
  EXPECT_EQ(match(thought("")).parent, 1) << "dropped: the latest";
  EXPECT_EQ(match(thought(" \n")).parent, 1) << "white space is nothing";
  EXPECT_EQ(match(thought("EDITED")).parent, -1);
  EXPECT_EQ(match(thought("EDITED")).fork_cause, kForkContentChanged);
  EXPECT_EQ(match(Assistant("No.", {}, "R0 first")).fork_cause, kForkNotFound);
}

TEST_F(HistoryTest, ReasoningThatWasNeverDeliveredIsAFork) {
  Call({{user_}, {}}, answered_);
  const Message sent = Assistant(answered_.content, {}, "EDITED");
  EXPECT_EQ(Find({{user_, sent, User("go on")}, {}}).parent, -1);
  EXPECT_EQ(Cause({{user_, sent, User("go on")}, {}}), kForkContentChanged);
}

TEST_F(HistoryTest, AnIdDoesNotVouchForOtherReasoning) {
  const Message thought = Assistant("", called_.tool_calls, "hm");
  Call({{user_}, {}}, thought);
  EXPECT_EQ(Find({{user_, thought, listed_}, {}}).parent, 0);
  const Message edited = Assistant("", called_.tool_calls, "EDITED");
  EXPECT_EQ(Find({{user_, edited, listed_}, {}}).parent, -1);
  EXPECT_EQ(Cause({{user_, edited, listed_}, {}}), kForkContentChanged);
}

// Two branches that say the same, but for a thought in their first answer.
TEST_F(HistoryTest, ReasoningOfEarlierTurnsCountsToo) {
  const auto first = [](const std::string& reasoning) { return Assistant("Yes.", {}, reasoning); };
  const auto second = [&](const std::string& reasoning) -> Conversation {
    return {{user_, first(reasoning), User("go on")}, {}};
  };
  const auto third = [&](const std::string& reasoning) {
    return Find({{user_, first(reasoning), User("go on"), answered_, User("thanks")}, {}});
  };
  Call({{user_}, {}}, first("R0"));
  Call({{user_}, {}}, first("R1"));
  EXPECT_EQ(Call(second("R0"), answered_), 2);
  EXPECT_EQ(Call(second("R1"), answered_), 3);
  // A thought that nobody delivered: its prompt is rendered, and is continued by who goes on sending it.
  EXPECT_EQ(Call(second("EDITED"), answered_), 4);
  EXPECT_EQ(third("R0").parent, 2);
  EXPECT_EQ(third("R1").parent, 3);
  EXPECT_EQ(third("EDITED").parent, 4);
  EXPECT_EQ(third("").parent, 4);
  EXPECT_EQ(third("another").parent, -1);
  EXPECT_EQ(third("another").fork_cause, kForkContentChanged);
}

TEST_F(HistoryTest, ReasoningIsPutBackWhereTheClientDroppedIt) {
  const Message thought = Assistant("I look.", called_.tool_calls, "hm");
  Call({{user_}, {}}, thought);
  const Conversation sent{{user_, called_, listed_}, {}};
  EXPECT_EQ(Find(sent).parent, 0);
  const auto restored = history_.Restored(sent, ConversationKeys::Of(sent), {}, -1);
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->messages[1].reasoning, "hm");
  const Conversation kept{{user_, thought, listed_}, {}};
  EXPECT_FALSE(history_.Restored(kept, ConversationKeys::Of(kept), {}, -1).has_value());
  const Conversation foreign{{user_, Assistant("I saw."), listed_}, {}};
  EXPECT_FALSE(history_.Restored(foreign, ConversationKeys::Of(foreign), {}, -1).has_value());
}

// A prompt that is rendered anew has the words of the model, wherever an equal prefix tells that they are the model's.
TEST_F(HistoryTest, DeliveredWordsComeBackAfterEqualPrefixes) {
  Message cut = called_;
  cut.tool_calls[0].arguments_json = R"({"path": "/et)";
  Message echoed = called_;
  echoed.tool_calls[0].arguments_json = R"({"path":"/et"})";
  const Conversation asked{{user_}, {}};
  const ConversationKeys keys = ConversationKeys::Of(asked);
  history_.Add(RequestKey::Of(keys), cut,
               {.call_id = "cut",
                .parent = -1,
                .prompt = {},
                .sampled = {PromptSegment(std::vector<int32_t>{1})},
                .text_key = {},
                .prefill = {},
                .streamed_ids = 0,
                .echoed_arguments = {echoed.tool_calls[0].arguments_json}});
  const auto arguments = [&](const Message& before, int call) {
    const Conversation sent{{before, echoed, listed_}, {}};
    const auto restored = history_.Restored(sent, ConversationKeys::Of(sent), {}, call);
    return restored.value_or(sent).messages[1].tool_calls[0].arguments_json;
  };
  EXPECT_EQ(arguments(user_, 0), cut.tool_calls[0].arguments_json);
  EXPECT_EQ(arguments(user_, -1), cut.tool_calls[0].arguments_json) << "no call is continued";
  EXPECT_EQ(arguments(User("another question"), -1), echoed.tool_calls[0].arguments_json);
}

// Equal text alone does not identify a call: an equal prefix or an id of the call does.
TEST_F(HistoryTest, ReasoningIsNotPutBackIntoAnotherConversation) {
  Call({{user_}, {}}, Assistant("Yes.", {}, "secret"));
  const auto restored = [&](const Message& before, const EchoedIds& echoed = {}) {
    const Conversation sent{{before, Assistant("Yes."), User("go on")}, {}};
    const auto with = history_.Restored(sent, ConversationKeys::Of(sent), echoed, -1);
    return with.has_value() ? with->messages[1].reasoning : "";
  };
  EXPECT_EQ(restored(user_), "secret");
  EXPECT_EQ(restored(User("another question")), "");
  EXPECT_EQ(restored(User("another question"), {{}, {"msg_call0_0"}, {}}), "secret") << "an id names the call";
}

// An earlier message was restored, the client goes on dropping, and begins a branch.
TEST_F(HistoryTest, ReasoningOfEveryTurnIsPutBackAsTheConversationGoesOn) {
  const auto said = [](const std::string& text) { return Assistant(text, {}, "of " + text); };
  const auto plain = [](const std::string& text) { return Assistant(text); };
  Call({{user_}, {}}, said("one"));
  Call({{user_, plain("one"), User("2")}, {}}, said("two"));
  Call({{user_, plain("one"), User("other"), plain("foreign"), User("2")}, {}}, said("two"));
  const auto reasoning = [&](const Conversation& sent) {
    const auto with = history_.Restored(sent, ConversationKeys::Of(sent), {}, -1);
    std::vector<std::string> all;
    for (const Message& message : with.value_or(sent).messages) {
      if (message.role == "assistant") all.push_back(message.reasoning);
    }
    return all;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(reasoning({{user_, plain("one"), User("2"), plain("two"), User("3")}, {}}),
              ElementsAre("of one", "of two"));
  EXPECT_THAT(reasoning({{user_, plain("one"), User("other"), plain("foreign"), User("2"), plain("two")}, {}}),
              ElementsAre("of one", "", "of two"));
  // A summary replaces the prompt, so nothing identifies the calls of these answers.
  EXPECT_THAT(reasoning({{User("summary"), plain("one"), User("2"), plain("two"), User("3")}, {}}),
              ElementsAre("", ""));
}

TEST_F(HistoryTest, CallsHaveTheIdsThatTheModelWroteBesideThoseOfTheClient) {
  Message written = called_;
  written.tool_calls[0].written_id = "functions.ls:0";
  Call({{user_}, {}}, written);
  const auto id_of = [](const Conversation& conversation) { return conversation.messages[1].tool_calls[0].written_id; };
  // By an id that was given out, wherever it stands; or by its place behind an equal prefix.
  const Conversation elsewhere{{User("anything"), Assistant("?", {{"id_1", "cat", "{}"}}), listed_}, {}};
  ASSERT_TRUE(history_.Restored(elsewhere, ConversationKeys::Of(elsewhere), {}, -1).has_value());
  EXPECT_EQ(id_of(*history_.Restored(elsewhere, ConversationKeys::Of(elsewhere), {}, -1)), "functions.ls:0");
  Message renamed = called_;
  renamed.tool_calls[0].id = "toolu_7";
  const Conversation foreign{{User("anything"), renamed, listed_}, {}};
  EXPECT_FALSE(history_.Restored(foreign, ConversationKeys::Of(foreign), {}, -1).has_value());
  const Conversation sent{{user_, renamed, listed_}, {}};
  for (const int call : {-1, Find(sent).parent}) {
    const auto delivered = history_.Restored(sent, ConversationKeys::Of(sent), {}, call);
    ASSERT_TRUE(delivered.has_value());
    EXPECT_EQ(id_of(*delivered), "functions.ls:0");
    EXPECT_EQ(delivered->messages[1].tool_calls[0].id, "toolu_7");
    EXPECT_FALSE(history_.Restored(*delivered, ConversationKeys::Of(*delivered), {}, call).has_value());
  }
}

// ---- Turns in parts ----

// The messages after JoinTurns, each assistant's as "content|reasoning|calls".
std::vector<std::string> Turns(const History& history, const Conversation& sent, const EchoedIds& echoed = {}) {
  const auto joined = history.JoinTurns(sent, ConversationKeys::Of(sent), echoed);
  std::vector<std::string> turns;
  for (const Message& message : joined.has_value() ? joined->conversation.messages : sent.messages) {
    std::string turn = message.content;
    if (message.role == "assistant") absl::StrAppend(&turn, "|", message.reasoning, "|", message.tool_calls.size());
    turns.push_back(turn);
  }
  return turns;
}

TEST_F(HistoryTest, PartsOfAnAnswerAreOneTurnInAnyOrder) {
  const text::ToolCall ls = called_.tool_calls[0];
  Call({{user_}, {}}, Assistant("I look. Done.", {ls}, "hm"));
  std::vector<Message> parts = {Assistant("I look."), Assistant(" Done."), Assistant("", {ls}),
                                Assistant("", {}, "hm")};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Conversation sent{{user_}, {}};
    for (const int part : order) sent.messages.push_back(parts[part]);
    sent.messages.push_back(listed_);
    const bool in_order = std::find(order.begin(), order.end(), 0) < std::find(order.begin(), order.end(), 1);
    const auto joined = history_.JoinTurns(sent, ConversationKeys::Of(sent), {});
    ASSERT_TRUE(joined.has_value());
    ASSERT_EQ(joined->conversation.messages.size(), 3u);
    EXPECT_EQ(history_.Find(joined->conversation, joined->keys).parent, in_order ? 0 : -1);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(HistoryTest, AnswersInARowStayTwoTurns) {
  using ::testing::ElementsAre;
  const Message one = Assistant("One."), two = Assistant("Two.");
  Call({{user_}, {}}, one);
  Call({{user_, one}, {}}, two);  // asked again without a word of the user's
  EXPECT_THAT(Turns(history_, {{user_, one, two, listed_}, {}}),
              ElementsAre("list the files", "One.||0", "Two.||0", "a b"));
  // The same behind another prefix, as after a summary.
  EXPECT_THAT(Turns(history_, {{User("summary"), one, two}, {}}), ElementsAre("summary", "One.||0", "Two.||0"));
  // A client's own words end a request; then they are no part of the answer to it.
  const Message own = Assistant("My words."), more = Assistant("More.");
  Call({{user_, own, more}, {}}, one);
  EXPECT_THAT(Turns(history_, {{user_, own, more, one}, {}}),
              ElementsAre("list the files", "My words.\n\nMore.||0", "One.||0"));
}

TEST_F(HistoryTest, UnknownPartsAreOneTurnUnlessTheirIdsDiffer) {
  using ::testing::ElementsAre;
  const text::ToolCall ls = called_.tool_calls[0];
  Call({{user_}, {}}, called_);
  Call({{user_, called_, listed_}, {}}, answered_);
  const Message a = Assistant("a", {}, "r"), b = Assistant("b", {ls}, "s");
  EXPECT_THAT(Turns(history_, {{User("else"), a, b, listed_, a}, {}}),
              ElementsAre("else", "a\n\nb|r\n\ns|1", "a b", "a|r|0"));
  EXPECT_THAT(Turns(history_, {{User("else"), a, b}, {}}, {{}, {"msg_call1_0"}, {}}),
              ElementsAre("else", "a|r|0", "b|s|1"));
  const Conversation sent{{User("else"), a, b}, {}};
  const auto joined = history_.JoinTurns(sent, ConversationKeys::Of(sent), {{}, {"rs_call0_0"}, {"msg_call0_0"}});
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->echoed, (EchoedIds{{}, {"rs_call0_0", "msg_call0_0"}}));
  EXPECT_FALSE(history_.JoinTurns({{user_, a, user_, b}, {}}, ConversationKeys::Of(sent), {}).has_value());
}

TEST(CanonicalArgumentsTest, OnlyEqualValuesAreEqual) {
  const auto equal = [](const std::string& a, const std::string& b) {
    return CanonicalArguments(a) == CanonicalArguments(b);
  };
  EXPECT_TRUE(equal(R"({"a": [1, null, "x"], "b": {"c": true}})", R"({'b': {'c': True}, 'a': [1, None, 'x']})"));
  EXPECT_TRUE(equal(R"({"a": "it's \"so\""})", R"({'a': 'it\'s "so"'})"));
  EXPECT_TRUE(equal(R"({"a": "\u00e9"})", "{'a': '\\xe9'}"));
  EXPECT_FALSE(equal(R"({"a": "True"})", "{'a': True}"));
  EXPECT_FALSE(equal(R"({"a": 1})", R"({"a": "1"})"));
  EXPECT_FALSE(equal("{'a': 1", "{'a': 2"));
  EXPECT_EQ(CanonicalArguments("not json"), "not json");
  EXPECT_EQ(CanonicalArguments("'"), "'");
  EXPECT_EQ(CanonicalArguments("'\\x4"), "'\\x4");
  EXPECT_EQ(CanonicalArguments("\\"), "\\");
}

}  // namespace
}  // namespace ingot::gateway::history_test
