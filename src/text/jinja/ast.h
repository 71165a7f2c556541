// Defines the syntax tree of a parsed template. Immutable and shared by all renderings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *list
  ExprPtr double_star;  // **dict
};

struct Expr {
  enum class Kind {
    kConst,      // constant
    kName,       // slot, text
    kAttribute,  // items[0].text; as an assignment target: namespace attribute, slot
    kItem,       // items[0][items[1]]
    kSlice,      // items[0][items[1]:items[2]:items[3]]; missing items are null
    kCall,       // items[0](arguments)
    kFilter,     // items[0] | text(arguments); in a filter block, items[0] is null
    kTest,       // items[0] is text(arguments)
    kList,
    kTuple,
    kDict,  // items: key, value, key, value ...
    kNot,
    kNegate,
    kPlus,
    kAnd,
    kOr,
    kBinary,     // items[0] op items[1]
    kConcat,     // items ~
    kCompare,    // items[0] ops[0] items[1] ops[1] items[2] ...
    kCondition,  // items[0] if items[1] else items[2]; undefined if there is no items[2]
  };
  Kind kind;
  int line;
  int depth = 1;
  Value constant;
  int slot = -1;
  std::string text;
  bool may_be_key = false;       // kAttribute: dicts have no attribute with this name, so it can be a key
  char op = 0;                   // operator, as in Arithmetic
  std::vector<std::string> ops;  // < <= > >= == != in notin
  std::vector<ExprPtr> items;
  CallArguments arguments;
  Filter filter = nullptr;
  Test test = nullptr;
};

// Parameters of a macro or a call block.
struct Signature {
  std::vector<std::pair<std::string, int>> names;  // with their slots
  std::vector<ExprPtr> defaults;                   // for the last names
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
  enum class Kind {
    kOutput,       // exprs
    kSet,          // target = exprs[0]
    kSetBlock,     // target = body | exprs[0]; null exprs[0] = no filter
    kIf,           // branches, else_body
    kFor,          // for target in exprs[0] if exprs[1] (null = all items): body else else_body
    kMacro,        // text, slot, signature, body
    kCallBlock,    // exprs[0] is the call, signature, body
    kFilterBlock,  // exprs[0] is the filter, body
    kWith,         // targets = exprs, body
    kGeneration,   // body: the assistant's text
    kBreak,
    kContinue,
  };
  Kind kind;
  int line;
  std::string text;
  int slot = -1;
  bool recursive = false;
  ExprPtr target;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> exprs;
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block body;
  Block else_body;
  Signature signature;
};

struct Ast {
  Block body;
  std::vector<std::string> names;  // by slot
  int loop_slot, caller_slot, varargs_slot, kwargs_slot;
};

// Parses a template. Throws TemplateError{kSyntax}.
Ast ParseTemplate(std::string_view source);

}  // namespace ingot::text::jinja
