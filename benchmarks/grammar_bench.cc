// Constrained sampling: what a grammar costs, without the model.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release grammar_bench
//   build/release/benchmarks/grammar_bench
//
// A made-up vocabulary of 150,000 tokens that looks like a real one: words with and without a leading space, numbers,
// runs of white space, punctuation runs with quotes and brackets, pieces of two- and three-byte characters; 2 to 24
// bytes each. `vocabulary`: the trie over it. `compile`: a grammar seen for the first time. `first`: one text under it,
// every mask new. `again`: the same text, every mask known; the steady state. `accept`: only taking the tokens. Texts
// are split into the longest tokens. `restrict`: applying a mask to a row of 150,000 log-probs, narrow and wide, and
// drawing from that row without a mask. One thread. Not measured: decoding the vocabulary's bytes from a tokenizer.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "grammar/grammar.h"
#include "rollout/sampling/constraint.h"
#include "rollout/sampling/sampling.h"

namespace {

using namespace ingot;
using std::chrono::steady_clock;

double MicrosSince(steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(steady_clock::now() - start).count();
}

constexpr int32_t kTokens = 150'000;

std::vector<std::string> Tokens() {
  uint64_t drawn = 0;
  const auto random = [&](size_t bound) { return base::DeriveSeed(42, drawn++) % bound; };
  const std::string letters = "etaoinshrdlucmfwypvbgkjqxzETAOINS", marks = "\"\":,.{}[]()<>/\\_-+*=;'!?#$%&@|~^`";
  std::set<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.insert(std::string(1, static_cast<char>(byte)));
  for (int n = 1; n <= 128; n *= 2) tokens.insert(std::string(n, ' '));
  while (tokens.size() < kTokens) {
    std::string token = random(2) == 0 ? " " : "";
    const size_t kind = random(20), length = 1 + random(10) + random(4) * random(4);
    for (size_t i = 0; i < length; ++i) {
      if (kind < 14) {
        token += letters[std::min(random(letters.size()), random(letters.size()))];
      } else if (kind < 16) {
        token += marks[random(marks.size())];
        if (i == 4) break;
      } else if (kind < 19) {
        const size_t c = 0x400 + random(0x9000);
        if (c < 0x800) {
          token += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
        } else {
          token += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                    static_cast<char>(0x80 | (c & 63))};
        }
        if (i == 3) break;
      } else {
        token += static_cast<char>('0' + random(10));
        if (i == 2) break;
      }
    }
    tokens.insert(token);
  }
  return {tokens.begin(), tokens.end()};
}

// Longest tokens first.
std::vector<int32_t> Encode(const std::unordered_map<std::string, int32_t>& ids, const std::string& text) {
  std::vector<int32_t> out;
  for (size_t at = 0; at < text.size();) {
    size_t length = std::min<size_t>(24, text.size() - at);
    while (!ids.contains(text.substr(at, length))) --length;
    out.push_back(ids.at(text.substr(at, length)));
    at += length;
  }
  return out;
}

struct Times {
  double total_us = 0, worst_us = 0;
};

Times MaskAndAccept(grammar::Matcher& matcher, const std::vector<int32_t>& ids, bool masks) {
  Times times;
  for (const int32_t id : ids) {
    const auto start = steady_clock::now();
    bool fine = true;
    if (masks) {
      const auto allowed = matcher.Allowed();
      fine = allowed.ok() && (*allowed)->contains(id);
    }
    fine = matcher.Accept(id) && fine;
    const double us = MicrosSince(start);
    times.total_us += us;
    times.worst_us = std::max(times.worst_us, us);
    if (!fine) {
      std::fprintf(stderr, "a token of the text is not allowed\n");
      std::exit(1);
    }
  }
  return times;
}

struct Workload {
  const char* name;
  std::string schema;
  std::string text;
};

std::vector<Workload> Workloads() {
  std::string records = "[", prose = "\"";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&records, i > 0 ? ", " : "", "{\"id\": ", i * 37, ", \"name\": \"the name of number ", i,
                    "\", \"tags\": [\"some tag\", \"other\"], \"score\": ", i, ".25, \"open\": true}");
    prose += "some words that are written in a string, one after the other. ";
  }
  return {
      {"arguments",
       R"({"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer","minimum":1},
           "mode":{"enum":["read","write"]},"content":{"type":"string"}},"required":["path","mode"]})",
       R"({"path": "src/some/where/file.cc", "line": 1024, "mode": "write", "content": "int main() {\n  return 0;\n}\n"})"},
      {"records",
       R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string",
           "maxLength":200},"tags":{"type":"array","items":{"type":"string"}},"score":{"type":"number"},
           "open":{"type":"boolean"}},"required":["id","name"]}})",
       records + "]"},
      {"any value", "true", records + "]"},
      {"long string", R"({"type":"string"})", prose + "\""},
      {"pattern", R"({"type":"string","pattern":"^[a-z ,.]*$"})", prose + "\""},
      {"max length", absl::StrCat(R"({"type":"string","maxLength":)", prose.size(), "}"), prose + "\""},
  };
}

void RestrictRows(grammar::Compiler& compiler) {
  std::vector<float> row(kTokens);
  for (int32_t i = 0; i < kTokens; ++i) row[i] = static_cast<float>(8 * base::UniformAt(7, i));
  rollout::ShapingScratch scratch;
  rollout::Sampler sampler;
  rollout::DrawOptions options;
  options.temperature = 1;
  constexpr int kRounds = 50;
  const auto report = [&](const char* name, rollout::Constraint* constraint) {
    double restrict_us = 0, draw_us = 0;
    for (int i = 0; i < kRounds; ++i) {
      rollout::ShapedRow shaped{row, {}};
      const auto start = steady_clock::now();
      if (constraint != nullptr) shaped = *constraint->Restrict(row, scratch);
      restrict_us += MicrosSince(start);
      const auto middle = steady_clock::now();
      if (!sampler.Draw(shaped, options, i).ok()) std::exit(1);
      draw_us += MicrosSince(middle);
    }
    std::printf("%-12s restrict %8.1f us, draw %8.1f us\n", name, restrict_us / kRounds, draw_us / kRounds);
  };
  report("no grammar", nullptr);
  rollout::Constraint narrow(*compiler.Compile({{{{true, R"({"type":"object"})"}}}, ""}), {0});
  report("narrow mask", &narrow);
  rollout::Constraint wide(*compiler.Compile({{{{true, R"({"type":"boolean"})"}}}, "until here"}), {0});
  report("wide mask", &wide);
}

}  // namespace

int main() {
  std::vector<std::string> tokens = Tokens();
  std::unordered_map<std::string, int32_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) ids[tokens[i]] = static_cast<int32_t>(i);
  auto start = steady_clock::now();
  const auto vocabulary =
      std::make_shared<const grammar::Vocabulary>(std::move(tokens), std::vector<bool>(kTokens, false));
  std::printf("vocabulary   %d tokens, %zu trie nodes, built in %.1f ms\n", kTokens, vocabulary->node_count(),
              MicrosSince(start) / 1e3);
  grammar::Compiler compiler(vocabulary);
  for (const Workload& workload : Workloads()) {
    const std::vector<int32_t> text = Encode(ids, workload.text);
    start = steady_clock::now();
    const auto program = compiler.Compile({{{{true, workload.schema}}}, ""});
    const double compile_us = MicrosSince(start);
    if (!program.ok()) {
      std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
      return 1;
    }
    grammar::Matcher first(*program), again(*program), alone(*program);
    const Times cold = MaskAndAccept(first, text, true), warm = MaskAndAccept(again, text, true);
    const Times accept = MaskAndAccept(alone, text, false);
    const double n = static_cast<double>(text.size());
    std::printf(
        "%-12s %4zu tokens; compile %7.0f us; per token: first %7.1f us (worst %6.0f), again %5.2f us (worst "
        "%4.0f), accept %5.2f us\n",
        workload.name, text.size(), compile_us, cold.total_us / n, cold.worst_us, warm.total_us / n, warm.worst_us,
        accept.total_us / n);
  }
  RestrictRows(compiler);
  return 0;
}
