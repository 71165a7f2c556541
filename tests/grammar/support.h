// Helpers for the tests of grammars.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace ingot::grammar {

// A vocabulary of one token per byte, then `pieces`, then atomic tokens.
inline std::shared_ptr<const Vocabulary> MakeVocabulary(const std::vector<std::string>& pieces = {},
                                                        const std::vector<std::string>& atoms = {}) {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(std::string(1, static_cast<char>(byte)));
  bytes.insert(bytes.end(), pieces.begin(), pieces.end());
  std::vector<bool> atomic(bytes.size(), false);
  bytes.insert(bytes.end(), atoms.begin(), atoms.end());
  atomic.resize(bytes.size(), true);
  return std::make_shared<const Vocabulary>(std::move(bytes), std::move(atomic));
}

inline Spec SchemaSpec(std::string schema) { return {{{{true, std::move(schema)}}}, ""}; }

inline absl::StatusOr<std::shared_ptr<const Program>> CompileSchema(const std::string& schema) {
  static auto* const compiler = new Compiler(MakeVocabulary());
  return compiler->Compile(SchemaSpec(schema));
}

inline bool Takes(std::shared_ptr<const Program> program, std::string_view text) {
  Matcher matcher(std::move(program));
  return matcher.AcceptText(text) && matcher.complete();
}

// Whether `text` satisfies the schema; a schema that does not compile fails the test.
inline bool Takes(const std::string& schema, std::string_view text) {
  const auto program = CompileSchema(schema);
  EXPECT_EQ(program.status(), absl::OkStatus()) << schema;
  return program.ok() && Takes(*program, text);
}

inline std::string FaultOf(const std::string& schema) {
  const auto program = CompileSchema(schema);
  if (program.ok()) return "";
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(program.status().message());
}

}  // namespace ingot::grammar
