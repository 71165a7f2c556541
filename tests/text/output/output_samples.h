// Random outputs of every format of the table: well-formed, damaged, and rubble.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "text/output/output_format.h"

namespace ingot::text {

inline const std::vector<base::json::value>& Tools() {
  static const auto* const tools = new std::vector<base::json::value>{*base::ParseJson(
      R"({"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":{
           "path":{"type":"string"},"text":{"type":"string"},"count":{"type":"integer"}}}}})")};
  return *tools;
}

inline std::shared_ptr<const OutputFormat> Shared(const std::string& name) {
  return OutputFormat::Make((*FindOutputFormat(name))->row()).value();
}

inline std::vector<std::shared_ptr<const OutputFormat>> All() {
  std::vector<std::shared_ptr<const OutputFormat>> all;
  for (const std::string& name : OutputFormatNames()) all.push_back(Shared(name));
  return all;
}

// Literal texts of the format, and halves of them.
inline std::vector<std::string> Pieces(const OutputRow& row) {
  std::vector<std::string> pieces = {"text",
                                     " ",
                                     "\n",
                                     "\n\n",
                                     "<",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "\"",
                                     "'",
                                     "\\",
                                     ",",
                                     ":",
                                     "(",
                                     ")",
                                     "=",
                                     "a",
                                     "1",
                                     "True",
                                     "é",
                                     "\U0001F600",
                                     "\xFF",
                                     "{\"a\": \"b\"}",
                                     "{}",
                                     "ping",
                                     "\"name\": \"ping\", ",
                                     "\"arguments\": ",
                                     "[TOOL_CALLS]",
                                     "<think>"};
  std::vector<std::string> texts = {row.think_begin,        row.think_end,          row.parameter,
                                    row.channels.start,     row.channels.channel,   row.channels.message,
                                    row.channels.constrain, row.channels.write_call};
  texts.insert(texts.end(), row.channels.ends.begin(), row.channels.ends.end());
  for (const SectionRow& section : row.sections) {
    texts.insert(texts.end(), {section.begin, section.call, section.end, section.between, section.before});
  }
  for (const std::string& text : texts) {
    std::string literal;
    for (size_t at = 0; at <= text.size(); ++at) {
      if (at < text.size() && text[at] != '{' && text[at] != '}') {
        literal += text[at];
        continue;
      }
      if (!literal.empty()) {
        pieces.push_back(literal);
        pieces.push_back(literal.substr(0, literal.size() / 2));
        pieces.push_back(literal.substr(literal.size() / 2));
      }
      literal.clear();
      if (at < text.size() && text[at] == '{') at = text.find('}', at);
    }
  }
  return pieces;
}

class Outputs {
 public:
  Outputs(const OutputFormat& format, unsigned seed) : format_(format), pieces_(Pieces(format.row())), random_(seed) {}

  // A well-formed output, a damaged one, or rubble.
  std::string Next() {
    std::string output;
    const int kind = random_() % 4;
    if (kind > 0) output = Good();
    if (kind == 0) {
      for (int k = random_() % 16; k > 0; --k) output += Piece();
    } else if (kind > 1) {
      for (int k = 1 + random_() % 3; k > 0; --k) Mutilate(output);
    }
    return output;
  }

  size_t Below(size_t bound) { return random_() % bound; }
  const std::string& Piece() { return pieces_[random_() % pieces_.size()]; }

 private:
  std::string Good() {
    std::string output;
    const OutputRow& row = format_.row();
    if (random_() % 3 == 0 && !row.think_begin.empty()) output = row.think_begin + "\nwhy\n\n" + row.think_end + "\n\n";
    if (random_() % 3 == 0 && row.channels.used()) {
      output = "<|channel|>analysis<|message|>why<|end|><|start|>assistant";
    }
    std::vector<ToolCall> calls;
    for (int k = random_() % 3; k > 0 && format_.name() != "plain"; --k) {
      calls.push_back(
          {"", random_() % 2 ? "write_file" : "ping", R"({"path": "é\n</x>", "count": 3, "more": [1, {"k": null}]})"});
    }
    return output + *format_.WriteCalls(random_() % 2 ? "Content:\n  x" : "", calls) + (random_() % 4 ? "" : "\nmore");
  }

  void Mutilate(std::string& output) {
    const size_t at = random_() % (output.size() + 1), size = random_() % 8;
    switch (random_() % 4) {
      case 0:
        output.resize(at);
        break;
      case 1:
        output.erase(at, size);
        break;
      case 2:
        output.insert(at, Piece());
        break;
      default:
        output += output.substr(at / 2);
    }
  }

  const OutputFormat& format_;
  const std::vector<std::string> pieces_;
  std::mt19937 random_;
};

inline constexpr CallMode kModes[] = {CallMode::kText, CallMode::kWhole, CallMode::kStreamed};

}  // namespace ingot::text
