#pragma once
// What stands at the other end of stdout and stderr.

namespace osdn {

enum class Stream { kStdout, kStderr };

/// True for a terminal that understands control codes; false for files, pipes,
/// TERM=dumb and the pseudo-terminals of a launcher of several ranks.
bool is_terminal(Stream stream);

/// Columns of the terminal; `fallback` where there is none.
int terminal_width(Stream stream, int fallback = 80);

}  // namespace osdn
