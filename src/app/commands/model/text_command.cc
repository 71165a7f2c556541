#include "app/commands/model/text_command.h"

#include <iostream>

#include "app/commands/model/text_parse_command.h"
#include "app/commands/model/text_render_command.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {
namespace {

namespace json = base::json;

absl::StatusOr<TextLine> MakeEncode(const TextArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const auto tokenizer, text::LoadTokenizer(args.tokenizer_dir));
  return TextLine([tokenizer, special = args.special](const json::value& input) -> absl::StatusOr<json::value> {
    if (!input.is_string()) return absl::InvalidArgumentError("expected a JSON string");
    std::vector<int32_t> ids = tokenizer->Encode(std::string_view(input.get_string()), /*allow_special=*/true);
    if (special) ids = tokenizer->AddSpecial(std::move(ids));
    return json::value(json::array(ids.begin(), ids.end()));
  });
}

absl::StatusOr<TextLine> MakeDecode(const TextArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const auto tokenizer, text::LoadTokenizer(args.tokenizer_dir));
  return TextLine([tokenizer, skip = args.skip_special](const json::value& input) -> absl::StatusOr<json::value> {
    if (!input.is_array()) return absl::InvalidArgumentError("expected a JSON list of token ids");
    std::vector<int32_t> ids;
    for (const json::value& id : input.get_array()) {
      if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= tokenizer->vocab_size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            base::PrintJson(id), " is not a token id: ids are integers from 0 to ", tokenizer->vocab_size() - 1));
      }
      ids.push_back(static_cast<int32_t>(id.get_int64()));
    }
    return json::value(json::string(tokenizer->DecodeText(ids, skip)));
  });
}

// Parses one line. Removes " line 1," from errors because the caller adds the line's number in the input.
absl::StatusOr<json::value> ParseLine(std::string_view line) {
  absl::StatusOr<json::value> parsed = base::ParseJson(line);
  if (parsed.ok()) return parsed;
  std::string message(parsed.status().message());
  constexpr std::string_view kFirst = " line 1,";
  if (const size_t at = message.find(kFirst); at != std::string::npos) message.erase(at, kFirst.size());
  return absl::InvalidArgumentError(message);
}

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

const std::vector<TextCommand>& TextCommands() {
  static const auto* const commands = new std::vector<TextCommand>{
      {"encode",
       "JSON strings to lists of token ids; special tokens in the text are recognized, and none are added",
       {"tokenizer", "special"},
       MakeEncode},
      {"decode", "lists of token ids to JSON strings", {"tokenizer", "skip-special"}, MakeDecode},
      {"parse",
       "model outputs (JSON strings, or objects with text, tools, and prefill) to OpenAI's assistant messages",
       {"format"},
       [](const TextArgs& args) -> absl::StatusOr<TextLine> { return MakeTextParse(args.format); }},
      {"render",
       "conversations (objects with \"messages\", \"tools\" and other template variables) to text and token ids",
       {"tokenizer", "like-transformers"},
       [](const TextArgs& args) -> absl::StatusOr<TextLine> {
         return MakeTextRender(args.tokenizer_dir, args.like_transformers);
       }},
  };
  return *commands;
}

int RunTextCommand(std::string_view name, const TextArgs& args, std::istream& in, std::ostream& out,
                   std::ostream& errors) {
  for (const TextCommand& command : TextCommands()) {
    if (command.name != name) continue;
    const absl::StatusOr<TextLine> run = command.make(args);
    if (!run.ok()) {
      errors << "ingot text " << name << ": " << run.status().message() << "\n";
      return 1;
    }
    int code = 0;
    std::string line;
    for (int64_t number = 1; std::getline(in, line); ++number) {
      if (IsBlank(line)) continue;
      absl::StatusOr<json::value> result = ParseLine(line);
      if (result.ok()) result = (*run)(*result);
      if (result.ok()) {
        out << base::PrintJson(*result) << "\n";
      } else {
        out << base::PrintJson(json::object{{"error", std::string(result.status().message())}, {"line", number}})
            << "\n";
        code = 1;
      }
    }
    out.flush();
    if (in.bad() || !out) {
      errors << "ingot text " << name << ": reading the input or writing the output failed\n";
      return 1;
    }
    return code;
  }
  errors << "ingot text: there is no command '" << name << "'\n";
  return 2;
}

}  // namespace ingot::app
