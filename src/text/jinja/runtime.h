// Runtime: the state of a rendering that functions, filters and tests use.
#pragma once

#include <ctime>
#include <memory>
#include <vector>

#include "text/jinja/value.h"

namespace ingot::text::jinja {

// A namespace(): the only object that a template can change.
class Namespace final : public Object {
 public:
  const char* type_name() const override { return "Namespace"; }
  std::string Repr() const override;
  std::optional<Value> Attribute(std::string_view name) const override;
  // Fails on names that begin with an underscore, like Hugging Face.
  void Set(std::string_view name, Value value);
  void Clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

class Runtime {
 public:
  explicit Runtime(std::timespec now) : now_(now) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::timespec& now() const { return now_; }
  // A namespace may contain itself; the runtime's destructor empties all namespaces that it made.
  std::shared_ptr<Namespace> MakeNamespace();

 private:
  const std::timespec now_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

using Filter = Value (*)(Runtime& runtime, const Value& value, const Args& args);
using Test = bool (*)(Runtime& runtime, const Value& value, const Args& args);
using Function = Value (*)(Runtime& runtime, const Args& args);
// nullptr: no such name.
Filter FindFilter(std::string_view name);
Filter FindTextFilter(std::string_view name);
Filter FindSequenceFilter(std::string_view name);
Test FindTest(std::string_view name);
// The globals of a chat template: range, dict, namespace, joiner, cycler, raise_exception, strftime_now.
const std::vector<std::pair<std::string, Value>>& Globals();
Value CallFilter(Runtime& runtime, std::string_view name, const Value& value, const Args& args);
bool RunTest(Runtime& runtime, Test test, const Value& value, const Args& args);
bool CallTest(Runtime& runtime, std::string_view name, const Value& value, const Args& args);

}  // namespace ingot::text::jinja
