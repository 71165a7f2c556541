// E2B's wire format, without its SDK: requests as the Python SDK 2.63.0 writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "execution/e2b/connect.h"
#include "execution/e2b/e2b_files.h"
#include "execution/test_client.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;
using testing::ElementsAre;
using testing::HasSubstr;

class E2bTest : public ServiceTest {
 protected:
  const http::Fields api_ = {{"X-API-KEY", kKey}, {"Content-Type", "application/json"}};

  void Create(const std::string& body = R"({"templateID": "base", "timeout": 60})") {
    const http::Reply reply = Ask("POST", "/v2/sandboxes", body, api_);
    ASSERT_EQ(reply.status, 201) << reply.body;
    id_ = std::string(Json(reply).at("sandboxID").get_string());
    token_ = std::string(Json(reply).at("envdAccessToken").get_string());
  }
  http::Fields Fields(const std::string& type) const {
    return {{"E2b-Sandbox-Id", id_}, {"E2b-Sandbox-Port", "49983"}, {"X-Access-Token", token_}, {"Content-Type", type}};
  }
  http::Reply Unary(const std::string& method, const std::string& body) {
    return Ask("POST", "/" + method, body, Fields("application/json"));
  }
  std::unique_ptr<Call> Stream(const std::string& method, const object& message, const std::string& timeout_ms = "") {
    http::Fields fields = Fields("application/connect+json");
    if (!timeout_ms.empty()) fields.emplace_back("Connect-Timeout-Ms", timeout_ms);
    return Begin("POST", "/" + method, Envelope(message), fields);
  }
  static object Bash(const std::string& text, bool has_input = false) {
    return {
        {"process", object{{"cmd", "/bin/bash"}, {"args", {"-l", "-c", text}}, {"envs", object{{"A", "of the call"}}}}},
        {"stdin", has_input}};
  }
  // A stream's messages as words: "start", "out:TEXT", "err:TEXT", "end:CODE", and of its end "ok" or the error's code.
  static std::vector<std::string> Words(std::string_view bytes) {
    std::vector<std::string> words;
    while (bytes.size() >= 5) {
      uint32_t size = 0;
      for (int i = 1; i < 5; ++i) size = size << 8 | static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
      const value message = base::ParseJson(bytes.substr(5, size)).value();
      if (bytes[0] == kEndOfStream) {
        const value* const error = base::Find(message, "error");
        words.push_back(error == nullptr ? "ok" : std::string(error->at("code").get_string()));
      } else {
        words.push_back(Word(message.at("event")));
      }
      bytes.remove_prefix(5 + size);
    }
    return words;
  }
  static std::string Word(const value& event) {
    if (base::Find(event, "start") != nullptr) return "start";
    if (const value* const end = base::Find(event, "end"))
      return "end:" + std::to_string(end->at("exitCode").to_number<int>());
    const value& data = event.at("data");
    const bool is_out = base::Find(data, "stdout") != nullptr;
    std::string text;
    absl::Base64Unescape(base::View(data.at(is_out ? "stdout" : "stderr").get_string()), &text);
    return (is_out ? "out:" : "err:") + text;
  }
  static uint32_t Pid(const Call& call) {
    return base::ParseJson(std::string_view(call.so_far()).substr(5, static_cast<uint8_t>(call.so_far()[4])))
        ->at("event")
        .at("start")
        .at("pid")
        .to_number<uint32_t>();
  }
  bool AwaitText(Call& call, const std::string& text) {
    return call.Await([&] {
      std::string all;
      for (const std::string& word : Words(call.so_far())) all += word;
      return all.find(text) != std::string::npos;
    });
  }

  std::string id_, token_;
};

TEST_F(E2bTest, SandboxesAreCreatedListedKeptAliveAndKilled) {
  Create(R"({"templateID": "base", "timeout": 60, "metadata": {"run": "a b"}, "envVars": {"B": "of the sandbox"},
             "autoPause": false, "secure": true})");
  const std::string first = id_;
  Create();
  EXPECT_EQ(Json(Ask("GET", "/v2/sandboxes", "", api_)).get_array().size(), 2u);
  // The SDK encodes metadata twice.
  const value listed = Json(Ask("GET", "/v2/sandboxes?metadata=run%3Da%252520b&state=running%2Cpaused", "", api_));
  ASSERT_EQ(listed.get_array().size(), 1u);
  EXPECT_EQ(listed.get_array()[0].at("sandboxID").get_string(), first);
  EXPECT_EQ(Json(Ask("GET", "/v2/sandboxes?state=paused", "", api_)).get_array().size(), 0u);
  const http::Reply page = Ask("GET", "/v2/sandboxes?limit=1", "", api_);
  ASSERT_EQ(page.fields.size(), 1u);
  EXPECT_EQ(page.fields[0].first, "x-next-token");
  EXPECT_EQ(Json(Ask("GET", "/v2/sandboxes?limit=1&nextToken=" + page.fields[0].second, "", api_)).get_array().size(),
            1u);
  const value detail = Json(Ask("GET", "/sandboxes/" + id_, "", api_));
  for (const char* const name : {"startedAt", "endAt", "envdVersion", "cpuCount", "memoryMB", "diskSizeMB", "state"})
    EXPECT_NE(base::Find(detail, name), nullptr) << name;
  EXPECT_EQ(Ask("POST", "/sandboxes/" + id_ + "/timeout", R"({"timeout": 600})", api_).status, 204);
  EXPECT_GT(Json(Ask("GET", "/sandboxes/" + id_, "", api_)).at("endAt").get_string(), detail.at("endAt").get_string());
  const http::Reply connected = Ask("POST", "/v2/sandboxes/" + id_ + "/connect", R"({"timeout": 1})", api_);
  EXPECT_EQ(Json(connected).at("envdAccessToken").get_string(), token_);
  EXPECT_EQ(Ask("GET", "/health", "", Fields("")).status, 204);
  EXPECT_EQ(Ask("DELETE", "/sandboxes/" + id_, "", api_).status, 204);
  EXPECT_EQ(Ask("DELETE", "/sandboxes/" + id_, "", api_).status, 404);
  const http::Reply gone = Ask("GET", "/health", "", Fields(""));
  EXPECT_EQ(gone.status, 502);
  EXPECT_THAT(std::string(Json(gone).at("message").get_string()), HasSubstr("was not found")) << "the SDK reads it";
}

TEST_F(E2bTest, KeysAndTokensAreAsked) {
  Create();
  EXPECT_EQ(Ask("POST", "/v2/sandboxes", "{}", {{"X-API-KEY", "another"}}).status, 401);
  EXPECT_EQ(Ask("DELETE", "/sandboxes/" + id_, "", {}).status, 401);
  const std::string right = std::exchange(token_, "another");
  EXPECT_EQ(Unary("process.Process/List", "{}").status, 401);
  EXPECT_EQ(Unary("filesystem.Filesystem/Stat", R"({"path": "/"})").status, 401);
  EXPECT_EQ(Ask("GET", "/files?path=f", "", Fields("")).status, 401);
  EXPECT_EQ(Ask("POST", "/execute", R"({"code": "1"})", Fields("")).status, 401);
  EXPECT_THAT(Words(Stream("process.Process/Start", Bash("true"))->Bytes()), ElementsAre("unauthenticated"));
  token_ = right;
  EXPECT_EQ(Unary("process.Process/List", "{}").status, 200);
  EXPECT_EQ(Ask("GET", "/contexts", "", {{"E2b-Sandbox-Id", id_}, {"E2B-Traffic-Access-Token", token_}}).status, 200);
}

TEST_F(E2bTest, WishesThatCannotBeFulfilledAreRejectedByName) {
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"templateID": "nodejs"})", "unknown template 'nodejs'"},
           {R"({"templateID": "folder:/root"})", "folder on this machine"},
           {R"({"mcp": {"exa": {}}})", "'mcp'"},
           {R"({"autoPause": true})", "'autoPause'"},
           {R"({"allow_internet_access": true})", "no internet"},
           {R"({"volumeMounts": [{"name": "v", "path": "/v"}]})", "'volumeMounts'"},
           {R"({"timeout": -1})", "'timeout'"},
           {R"([])", "JSON object"}}) {
    const http::Reply reply = Ask("POST", "/v2/sandboxes", body, api_);
    EXPECT_TRUE(reply.status == 400 || reply.status == 404) << reply.status << body;
    EXPECT_THAT(std::string(Json(reply).at("message").get_string()), HasSubstr(message)) << body;
  }
  Create();
  EXPECT_EQ(Ask("POST", "/sandboxes/" + id_ + "/pause", "{}", api_).status, 501);
  EXPECT_EQ(Unary("filesystem.Filesystem/CreateWatcher", R"({"path": "/"})").status, 501);
  EXPECT_THAT(Words(Stream("process.Process/Start", {{"pty", object()}})->Bytes()), ElementsAre("unimplemented"));
}

TEST_F(E2bTest, AProgramStreamsItsOutputAndItsEnd) {
  Create(R"({"envVars": {"B": "of the sandbox"}})");
  const auto call = Stream("process.Process/Start", Bash("echo \"$A\"; sleep 0.05; echo \"$B\" >&2; exit 3"));
  EXPECT_THAT(Words(call->Bytes()), ElementsAre("start", "out:of the call\n", "err:of the sandbox\n", "end:3", "ok"));
  EXPECT_EQ(call->content_type(), "application/connect+json");
  EXPECT_THAT(Words(Stream("process.Process/Start", {{"process", object{{"cmd", "/no/such"}}}})->Bytes()),
              ElementsAre("not_found"));
}

TEST_F(E2bTest, ProgramsAreListedFedSignalledAndJoined) {
  Create();
  const auto call =
      Stream("process.Process/Start", Bash("echo ready; read line; echo got $line; exec sleep 1000", true));
  ASSERT_TRUE(AwaitText(*call, "ready"));
  const std::string pid = std::to_string(Pid(*call));
  const value list = Json(Unary("process.Process/List", "{}")).at("processes");
  ASSERT_EQ(list.get_array().size(), 1u);
  EXPECT_EQ(list.get_array()[0].at("pid").to_number<int>(), std::stoi(pid));
  EXPECT_EQ(list.get_array()[0].at("config").at("cmd").get_string(), "/bin/bash");
  const auto joined = Stream("process.Process/Connect", {{"process", object{{"pid", std::stoi(pid)}}}});
  ASSERT_TRUE(joined->Await([&] { return !joined->so_far().empty(); }));
  const std::string selector = R"({"process": {"pid": )" + pid + "}";
  EXPECT_EQ(Unary("process.Process/SendInput", selector + R"(, "input": {"stdin": "aGVsbG8K"}})").status, 200);
  EXPECT_TRUE(AwaitText(*call, "got hello"));
  EXPECT_TRUE(AwaitText(*joined, "got hello")) << "a later reader sees what comes later";
  EXPECT_EQ(Unary("process.Process/CloseStdin", selector + "}").status, 200);
  EXPECT_EQ(Unary("process.Process/SendSignal", selector + R"(, "signal": "SIGNAL_SIGKILL"})").status, 200);
  EXPECT_EQ(Words(call->Bytes()).back(), "ok");
  EXPECT_THAT(Words(joined->Bytes()), testing::Contains("end:-1"));
  EXPECT_EQ(Unary("process.Process/SendSignal", selector + R"(, "signal": "SIGNAL_SIGKILL"})").status, 404);
  EXPECT_EQ(Unary("process.Process/SendInput", R"({"process": {}})").status, 400);
}

TEST_F(E2bTest, StreamedInputArrivesInOrder) {
  Create();
  const auto call = Stream("process.Process/Start", Bash("cat", true));
  ASSERT_TRUE(call->Await([&] { return !call->so_far().empty(); }));
  const auto data = [](const char* text) {
    return Envelope(object{{"data", object{{"input", object{{"stdin", text}}}}}});
  };
  const std::string start = Envelope(object{{"start", object{{"process", object{{"pid", Pid(*call)}}}}}});
  const http::Reply reply = Ask("POST", "/process.Process/StreamInput", start + data("b25l") + data("dHdv"),
                                Fields("application/connect+json"));
  EXPECT_EQ(reply.body, Envelope(object()) + EndEnvelope(absl::OkStatus()));
  EXPECT_TRUE(AwaitText(*call, "onetwo"));
}

TEST_F(E2bTest, AProgramPastItsTimeIsKilledAndNamed) {
  Create();
  EXPECT_THAT(Words(Stream("process.Process/Start", Bash("sleep 1000"), "100")->Bytes()),
              ElementsAre("start", "deadline_exceeded"));
}

TEST_F(E2bTest, AClientThatGoesAwayLeavesItsProgram) {
  Create();
  auto call = Stream("process.Process/Start", Bash("echo on; sleep 0.2; echo late > f"));
  ASSERT_TRUE(AwaitText(*call, "on"));
  call.reset();
  EXPECT_THAT(
      Words(Stream("process.Process/Start", Bash("until grep -q late f 2>/dev/null; do sleep 0.01; done"))->Bytes()),
      testing::Contains("end:0"));
}

TEST_F(E2bTest, AKilledSandboxEndsItsStreams) {
  Create();
  const auto call = Stream("process.Process/Start", Bash("sleep 1000"));
  ASSERT_TRUE(call->Await([&] { return !call->so_far().empty(); }));
  EXPECT_EQ(Ask("DELETE", "/sandboxes/" + id_, "", api_).status, 204);
  EXPECT_THAT(Words(call->Bytes()), ElementsAre("start", "unavailable"));
}

TEST_F(E2bTest, FilesComeAndGo) {
  Create();
  const std::string form =
      "--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"dir/one.txt\"\r\nContent-Type: "
      "text/plain\r\n\r\n"
      "first\r\n--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"two\"\r\n\r\n\r\n--b0--\r\n";
  const http::Reply written = Ask("POST", "/files", form, Fields("multipart/form-data; boundary=b0"));
  ASSERT_EQ(written.status, 200) << written.body;
  EXPECT_EQ(Json(written).get_array()[0].at("name").get_string(), "one.txt");
  EXPECT_EQ(Begin("GET", "/files?path=dir%2Fone.txt", "", Fields(""))->Bytes(), "first");
  EXPECT_EQ(Begin("GET", "/files?path=two&username=root", "", Fields(""))->Bytes(), "");
  EXPECT_EQ(Ask("POST", "/files?path=raw", std::string("a\0b", 3), Fields("application/octet-stream")).status, 200);
  EXPECT_EQ(Begin("GET", "/files?path=raw", "", Fields(""))->Bytes(), std::string("a\0b", 3));
  EXPECT_EQ(Ask("GET", "/files?path=none", "", Fields("")).status, 404);
  EXPECT_EQ(Ask("POST", "/files?path=z", "x",
                {{"E2b-Sandbox-Id", id_}, {"X-Access-Token", token_}, {"Content-Encoding", "gzip"}})
                .status,
            400);
  const value entry = Json(Unary("filesystem.Filesystem/Stat", R"({"path": "dir/one.txt"})")).at("entry");
  EXPECT_EQ(entry.at("type").get_string(), "FILE_TYPE_FILE");
  EXPECT_EQ(entry.at("size").get_string(), "5");
  EXPECT_EQ(entry.at("permissions").get_string(), "-rw-r--r--");
  EXPECT_THAT(std::string(entry.at("modifiedTime").get_string()), testing::MatchesRegex("20..-..-..T..:..:..[.0-9]*Z"));
  EXPECT_EQ(Unary("filesystem.Filesystem/MakeDir", R"({"path": "new/dir"})").status, 200);
  EXPECT_EQ(Unary("filesystem.Filesystem/MakeDir", R"({"path": "new/dir"})").status, 409);
  EXPECT_EQ(Unary("filesystem.Filesystem/Move", R"({"source": "raw", "destination": "new/raw"})").status, 200);
  const value list = Json(Unary("filesystem.Filesystem/ListDir", R"({"path": ".", "depth": 2})")).at("entries");
  std::vector<std::string> names;
  for (const value& each : list.get_array()) names.emplace_back(each.at("name").get_string());
  EXPECT_THAT(names, ElementsAre("dir", "one.txt", "new", "dir", "raw", "two"));
  EXPECT_EQ(Unary("filesystem.Filesystem/Remove", R"({"path": "new"})").status, 200);
  EXPECT_EQ(Json(Unary("filesystem.Filesystem/Stat", R"({"path": "new"})")).at("code").get_string(), "not_found");
}

TEST_F(E2bTest, CodeRunsInContexts) {
  Create(R"({"templateID": "code-interpreter-v1"})");
  const auto lines = [&](const std::string& body) { return Begin("POST", "/execute", body, Fields(""))->Bytes(); };
  lines(R"({"code": "x = 5", "context_id": null, "language": null, "env_vars": null})");
  const std::string second = lines(R"({"code": "print('out')\nx"})");
  EXPECT_THAT(second, HasSubstr(R"({"type":"stdout","text":"out\n","timestamp":)"));
  EXPECT_THAT(second, HasSubstr(R"({"type":"result","text":"5","is_main_result":true})"));
  EXPECT_THAT(second, HasSubstr(R"({"type":"number_of_executions","execution_count":2})"));
  EXPECT_THAT(lines(R"({"code": "1 / 0"})"),
              HasSubstr(R"("type":"error","name":"ZeroDivisionError","value":"division by zero")"));
  const http::Reply added = Ask("POST", "/contexts", R"({"cwd": "/"})", Fields("application/json"));
  const std::string context(Json(added).at("id").get_string());
  EXPECT_THAT(
      lines(R"json({"code": "import os\nos.getcwd(), 'x' in dir()", "context_id": ")json" + context + R"json("})json"),
      HasSubstr("('/', False)"));
  EXPECT_EQ(Json(Ask("GET", "/contexts", "", Fields(""))).get_array().size(), 2u);
  EXPECT_EQ(Ask("POST", "/contexts/" + context + "/restart", "", Fields("")).status, 200);
  EXPECT_EQ(Ask("DELETE", "/contexts/" + context, "", Fields("")).status, 204);
  EXPECT_EQ(Ask("DELETE", "/contexts/" + context, "", Fields("")).status, 404);
  EXPECT_EQ(Ask("POST", "/execute", R"({"code": "1", "language": "r"})", Fields("")).status, 400);
  EXPECT_EQ(Ask("POST", "/execute", R"({"code": "1", "context_id": "none"})", Fields("")).status, 404);
}

TEST(FormTest, FormsAreReadAndBrokenOnesNamed) {
  const std::string type = "multipart/form-data; boundary=\"x y\"";
  const auto one = ReadForm(
      type, "--x y\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a%22b\"\r\n\r\n1\r\n\r\n--x y--");
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ((*one)[0].name, "a\"b");
  EXPECT_EQ((*one)[0].bytes, "1\r\n");
  for (const char* const body : {"", "--x y", "--x y\r\n", "--x y--", "--x y\r\n\r\n", "--x y\r\na: b\r\n\r\n1", "junk",
                                 "--x y\r\na: b\r\n\r\n1\r\n--x y--"}) {
    EXPECT_FALSE(ReadForm(type, body).ok()) << body;
  }
  EXPECT_FALSE(ReadForm("multipart/form-data", "--").ok());
}

TEST(EnvelopeTest, EnvelopesAreReadAndBrokenOnesNamed) {
  const auto two =
      ReadEnvelopes(Envelope(object{{"a", 1}}) + Envelope(object{{"b", 2}}) + EndEnvelope(absl::OkStatus()));
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->size(), 2u);
  for (const std::string& body :
       {std::string("\0\0", 2), std::string("\0\0\0\0\5{}", 7), std::string("\1\0\0\0\2{}", 7),
        std::string("\0\0\0\0\1{", 6), std::string("\0\377\377\377\377{}", 7)}) {
    EXPECT_FALSE(ReadEnvelopes(body).ok());
  }
}

}  // namespace
}  // namespace ingot::execution
