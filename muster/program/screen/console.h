// Where the program's words go: data to stdout, everything else to stderr.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::program {

/// The two streams of the program and what is known of them.
class Console {
 public:
  /// `name` stands before errors and notes: "muster: error: …".
  Console(std::ostream& out,
          std::ostream& err,
          bool err_is_terminal,
          bool colour,
          std::string name = "muster");

  /// The console of this process: std::cout and std::cerr; colour if stderr is a terminal and
  /// NO_COLOR is unset. To be made before anything is opened: a standard stream that is closed is
  /// held, so that nothing else becomes it.
  static Console of_process(std::string name = "muster");

  std::ostream& out() { return out_; }  ///< data
  std::ostream& err() { return err_; }  ///< messages, progress, errors
  bool err_is_terminal() const { return err_is_terminal_; }
  bool colour() const { return colour_; }

  /// Columns of the terminal behind stderr, 80 where there is none.
  int width() const;

  /// "muster: error: …" and the hint, each on lines of its own; with json_errors one line of JSON:
  /// {"error":{"kind":"usage","refused":…,"rule":…,"value":…,"hint":…,"text":…}}, of which a text
  /// alone has "text" only.
  void error(std::string_view text);
  void error(const Error& error);

  /// The command line says --json: its reader is a script.
  void set_json_errors(bool json_errors) { json_errors_ = json_errors; }
  void note(std::string_view text);

  /// Throws an environment error if not all that was said to out() could be written: a full disk
  /// behind `> file`. A reader that has gone (`| head`) wants no more.
  void finish_out();

 private:
  std::ostream& out_;
  std::ostream& err_;
  bool err_is_terminal_;
  bool colour_;
  bool json_errors_ = false;
  std::string name_;
};

}  // namespace muster::program
