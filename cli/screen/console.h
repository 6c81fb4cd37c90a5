// Where the program's words go: data to stdout, everything else to stderr.
#pragma once

#include <iosfwd>
#include <string_view>

namespace muster::cli {

/// The two streams of the program and what is known of them.
class Console {
 public:
  Console(std::ostream& out, std::ostream& err, bool err_is_terminal, bool colour);

  /// The console of this process: std::cout and std::cerr; colour if stderr is a terminal and
  /// NO_COLOR is unset.
  static Console of_process();

  std::ostream& out() { return out_; }  ///< data
  std::ostream& err() { return err_; }  ///< messages, progress, errors
  bool err_is_terminal() const { return err_is_terminal_; }
  bool colour() const { return colour_; }

  /// Columns of the terminal behind stderr, 80 where there is none.
  int width() const;

  /// "muster: error: …" and the hint, each on lines of its own.
  void error(std::string_view text);
  void note(std::string_view text);

 private:
  std::ostream& out_;
  std::ostream& err_;
  bool err_is_terminal_;
  bool colour_;
};

}  // namespace muster::cli
