// The interpreter of a session: state between cells, results, errors, limits and deaths.
#include "execution/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "execution/test_session.h"

namespace ingot::execution {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Ran {
  std::string out, err, error, value, traceback, text;
  std::vector<base::json::object> results;
  int64_t count = -1;
  bool timed_out = false;
};

class InterpreterTest : public SessionTest {
 protected:
  InterpreterTest() : session_(Open()), interpreter_(std::make_shared<Interpreter>(*session_, "")) {}

  struct Going {
    std::shared_ptr<Bell> bell = std::make_shared<Bell>();
    std::shared_ptr<Cell> cell;
    Ran ran;
    bool done = false;
  };
  Going Begin(CellRequest request) {
    Going going;
    auto cell = interpreter_->Run(std::move(request), going.bell->ring());
    EXPECT_TRUE(cell.ok()) << cell.status();
    going.cell = *cell;
    return going;
  }
  static void Look(Going& going) {
    const auto string = [](const base::json::object& value, const char* name) {
      const auto* const found = value.if_contains(name);
      return found == nullptr || !found->is_string() ? "" : std::string(found->get_string());
    };
    for (CellEvent& event : going.cell->TakeEvents()) {
      Ran& ran = going.ran;
      if (event.kind == CellEvent::kOut) ran.out += event.text;
      if (event.kind == CellEvent::kErr) ran.err += event.text;
      if (event.kind == CellEvent::kResult) ran.text = string(event.value, "text");
      if (event.kind == CellEvent::kResult) ran.results.push_back(event.value);
      if (event.kind == CellEvent::kError) {
        ran.error = string(event.value, "name");
        ran.value = string(event.value, "value");
        ran.traceback = string(event.value, "traceback");
      }
      going.done = going.done || event.kind == CellEvent::kDone;
      if (event.kind == CellEvent::kDone) ran.count = event.count;
      if (event.kind == CellEvent::kDone) ran.timed_out = event.timed_out;
    }
  }
  static bool Await(Going& going, const std::function<bool()>& ready) {
    return going.bell->Await([&] {
      Look(going);
      return ready();
    });
  }
  static Ran End(Going& going) {
    EXPECT_TRUE(Await(going, [&] { return going.done; }));
    return going.ran;
  }
  Ran Run(CellRequest request) {
    Going going = Begin(std::move(request));
    return End(going);
  }
  Ran Run(const std::string& code) { return Run(CellRequest{.code = code}); }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Interpreter> interpreter_;
};

TEST_F(InterpreterTest, StateStaysAndTheLastExpressionIsTheResult) {
  EXPECT_EQ(Run("import math\nx = 20").text, "");
  const Ran second = Run("def twice(n):\n    return 2 * n\ntwice(x) + 2");
  EXPECT_EQ(second.text, "42");
  EXPECT_EQ(second.count, 2);
  EXPECT_EQ(Run("_ + math.floor(0.5)").text, "42");
  EXPECT_EQ(Run("x = None\nx").text, "") << "None is no result";
}

TEST_F(InterpreterTest, OutputOfACellAndOfItsProgramsComesBeforeItsEnd) {
  const Ran ran = Run(R"(import os, subprocess, sys
print("from print")
os.system("echo from a program")
subprocess.run(["sh", "-c", "echo trouble >&2"])
sys.stderr.write("ä\n")
"the result")");
  EXPECT_EQ(ran.out, "from print\nfrom a program\n");
  EXPECT_EQ(ran.err, "trouble\nä\n");
  EXPECT_EQ(ran.text, "'the result'");
}

TEST_F(InterpreterTest, OutputStreamsWhileTheCellRuns) {
  Going going = Begin({.code = "import time\nprint('early')\nwhile True: time.sleep(0.01)"});
  EXPECT_TRUE(Await(going, [&] { return going.ran.out == "early\n"; }));
  interpreter_->Interrupt();
  const Ran ran = End(going);
  EXPECT_EQ(ran.error, "KeyboardInterrupt");
  EXPECT_EQ(Run("1 + 1").text, "2") << "the state stays";
}

TEST_F(InterpreterTest, AnExceptionHasTheCellsOwnTracebackWithItsLines) {
  Run("def f(n):\n    return 1 / n");
  const Ran ran = Run("y = 5\nf(0)");
  EXPECT_EQ(ran.error, "ZeroDivisionError");
  EXPECT_EQ(ran.value, "division by zero");
  EXPECT_THAT(ran.traceback, HasSubstr("File \"<cell 2>\", line 2, in <module>\n    f(0)"));
  EXPECT_THAT(ran.traceback, HasSubstr("File \"<cell 1>\", line 2, in f\n    return 1 / n"));
  EXPECT_THAT(ran.traceback, Not(HasSubstr("run_cell")));
  EXPECT_EQ(Run("y").text, "5") << "lines before the failure count";
  const Ran syntax = Run("def (");
  EXPECT_EQ(syntax.error, "SyntaxError");
  EXPECT_EQ(Run("import sys; sys.exit(3)").error, "SystemExit");
  EXPECT_EQ(Run("y").text, "5");
}

TEST_F(InterpreterTest, CellsMayAwaitAndDisplay) {
  EXPECT_EQ(Run("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nawait f()").text, "7");
  const Ran ran = Run(R"(class Table:
    def __repr__(self): return "a table"
    def _repr_html_(self): return "<table>"
    def _repr_png_(self): return b"\x89PNG"
    def _repr_svg_(self): raise ValueError("broken")
display(Table())
Table())");
  ASSERT_EQ(ran.results.size(), 2u);
  EXPECT_EQ(ran.results[0].at("html").get_string(), "<table>");
  EXPECT_EQ(ran.results[0].at("png").get_string(), "iVBORw==") << "bytes are base64";
  EXPECT_FALSE(ran.results[0].contains("svg"));
  EXPECT_FALSE(ran.results[0].contains("is_main_result"));
  EXPECT_TRUE(ran.results[1].at("is_main_result").get_bool());
}

TEST_F(InterpreterTest, ATimeLimitInterruptsAndThenEndsTheInterpreter) {
  Run("x = 1");
  const Ran first = Run({.code = "while True: pass", .wall_time = std::chrono::milliseconds(500)});
  EXPECT_EQ(first.error, "KeyboardInterrupt");
  EXPECT_EQ(Run("x").text, "1");
  const Ran second = Run({.code = R"(import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: pass)",
                          .wall_time = std::chrono::milliseconds(500)});
  EXPECT_EQ(second.error, "InterpreterDied");
  EXPECT_TRUE(second.timed_out);
  EXPECT_EQ(Run("x").error, "NameError") << "a new interpreter has no state";
}

TEST_F(InterpreterTest, CellsWaitForEachOtherAndMayBeCancelled) {
  Going first = Begin({.code = "import time\nprint('one')\ntime.sleep(1000)"});
  EXPECT_TRUE(Await(first, [&] { return first.ran.out == "one\n"; }));
  Going second = Begin({.code = "print('two')"});
  Going third = Begin({.code = "print('three')"});
  interpreter_->Cancel(*second.cell);
  EXPECT_EQ(End(second).error, "Cancelled");
  interpreter_->Cancel(*first.cell);
  EXPECT_EQ(End(first).error, "KeyboardInterrupt");
  EXPECT_EQ(End(third).out, "three\n");
}

TEST_F(InterpreterTest, ADeadInterpreterIsNamedAndReplaced) {
  const Ran died = Run("import os\nprint('last words', flush=True)\nos._exit(3)");
  EXPECT_EQ(died.out, "last words\n");
  EXPECT_EQ(died.error, "InterpreterDied");
  EXPECT_THAT(died.value, HasSubstr("exited with 3"));
  EXPECT_EQ(Run("1").text, "1");
  interpreter_->Restart();
  std::string error;
  for (int tries = 0; tries < 100 && error != "NameError"; ++tries)
    error = Run("os").error;  // it may see the end first
  EXPECT_EQ(error, "NameError") << "the state is gone";
}

TEST_F(InterpreterTest, ACellThatSpoilsTheNotesSpoilsItsOwnAnswerAlone) {
  const Ran spoiled = Run(R"(import os, glob
for fd in range(3, 20):
    try: os.write(fd, b'not json\n[]\n{"done": "x"}\n{"result": 3}\n{"error": []}\n')
    except OSError: pass
"fine")");
  EXPECT_EQ(spoiled.text, "'fine'");
  EXPECT_EQ(Run("3").text, "3");
}

TEST_F(InterpreterTest, InputIsEmptyAndVariablesLastForOneCell) {
  EXPECT_EQ(Run("input()").error, "EOFError");
  EXPECT_EQ(Run({.code = "import os\nos.environ['A']", .env = {{"A", "here"}}}).text, "'here'");
  EXPECT_EQ(Run("os.environ.get('A', 'gone')").text, "'gone'");
}

TEST_F(InterpreterTest, AFloodOfOutputIsHeldBackAndWhole) {
  Going going = Begin({.code = "for i in range(20000): print('y' * 99)\n'end'"});
  const Ran ran = End(going);
  EXPECT_EQ(ran.out.size(), 2'000'000u);
  EXPECT_EQ(ran.text, "'end'");
}

TEST_F(InterpreterTest, ASessionThatEndsEndsItsCells) {
  Going going = Begin({.code = "print('on')\nimport time\ntime.sleep(1000)"});
  EXPECT_TRUE(Await(going, [&] { return going.ran.out == "on\n"; }));
  session_->End("the test ends it");
  EXPECT_THAT(End(going).value, HasSubstr("the test ends it"));
}

}  // namespace
}  // namespace ingot::execution
