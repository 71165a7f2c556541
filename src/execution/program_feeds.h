// Answers made from a program's or a cell's output, in an API's format.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "execution/feed.h"
#include "execution/store.h"

namespace ingot::execution {

// The texts of a stream. Each function may keep state: it is called in order.
struct ProgramWords {
  http::StreamHead head;
  std::function<std::string(const Process&)> start;
  std::function<std::string(const Chunk&)> chunk;
  std::function<std::string(const ProcessEnd&)> end;
  bool ends_program = false;  // a client that goes away ends the program
};
std::shared_ptr<Feed> MakeProgramFeed(std::shared_ptr<HeldSession> held, Session::StartedProgram started,
                                      ProgramWords words);

struct CellWords {
  http::StreamHead head;
  std::function<std::string(const CellEvent&)> event;
};
// Runs the cell in the interpreter. A client that goes away cancels it.
absl::StatusOr<std::shared_ptr<Feed>> MakeCellFeed(std::shared_ptr<HeldSession> held,
                                                   std::shared_ptr<Interpreter> interpreter, CellRequest request,
                                                   CellWords words, std::function<void()> wake);
// The same as one answer, of at most `output_bytes` of output: a cell that has more is interrupted.
absl::StatusOr<std::shared_ptr<Feed>> MakeWholeCell(std::shared_ptr<HeldSession> held,
                                                    std::shared_ptr<Interpreter> interpreter, CellRequest request,
                                                    size_t output_bytes, std::function<void()> wake);

// Texts of the service's own streams (service.h).
ProgramWords OwnProgramWords();
CellWords OwnCellWords();

}  // namespace ingot::execution
